"""The embedder behind an endpoint, on a real HTTP server: what it asks, what it believes, and what each failure becomes."""

import asyncio
import socket
from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np
import pytest
from starlette.responses import JSONResponse, Response

from shared.embedders import endpoint as endpoints
from shared.embedders.catalogue import Catalogue
from shared.embedders.endpoint import EndpointEmbedder, cut, retry_after_s
from shared.errors import EmbedderUnavailable, InvalidInput, UnknownModel
from shared.settings import EmbeddingEndpoint, Settings
from tests.endpoint_server import KEY, EndpointServer, running

pytestmark = [pytest.mark.integration, pytest.mark.anyio]

MODEL, DIMS = "words", 48
TEXT = "The gateway's certificate expired."


@pytest.fixture
def server() -> Iterator[EndpointServer]:
    with running(EndpointServer({MODEL: DIMS, "words-wide": 96}, turned=frozenset({"words-wide"}))) as serving:
        yield serving


@pytest.fixture
async def embedder(server):
    opened = EndpointEmbedder(server.endpoint(MODEL))
    yield opened
    await opened.close()


def answer(*rows: object, **given: object) -> Response:
    return JSONResponse({"data": [{"index": index, "embedding": row} for index, row in enumerate(rows)]}, **given)


async def test_model_text_and_key_go_out_and_the_name_tells_the_length(server):
    server.key = KEY
    embedder = EndpointEmbedder(server.endpoint(MODEL, key=KEY, send_dims=True))
    assert (embedder.model, embedder.dims) == (f"{MODEL}/{DIMS}", DIMS)
    assert (await embedder.embed_text(TEXT)).shape == (1, DIMS)
    wanted = {"model": MODEL, "input": [TEXT], "encoding_format": "float", "dimensions": DIMS}
    assert server.asked == [wanted]
    await embedder.close()


async def test_a_wrong_key_is_an_outage_and_no_texts_fault(server, embedder):
    server.key = KEY
    with pytest.raises(EmbedderUnavailable, match="401"):
        await embedder.embed_text(TEXT)


@pytest.mark.parametrize("status", [302, 403, 404, 408, 429, 500, 502, 503])
async def test_any_other_status_is_an_outage(server, embedder, status):
    server.answers.append(JSONResponse({}, status))
    with pytest.raises(EmbedderUnavailable, match=str(status)):
        await embedder.embed_text(TEXT)
    assert (await embedder.embed_text(TEXT)).shape == (1, DIMS)


async def test_a_text_that_is_refused_is_invalid_where_another_is_taken(server, embedder):
    server.refused = "unspeakable"
    with pytest.raises(InvalidInput, match="refused"):
        await embedder.embed_text("This is unspeakable.")
    assert server.texts == ["This is unspeakable.", endpoints.PROBE]


async def test_a_setting_that_is_refused_is_an_outage(server):
    """A wrong model name is answered like a wrong text: it must not bury every event."""
    embedder = EndpointEmbedder(EmbeddingEndpoint(url=server.url, model="misspelt", dims=DIMS))
    for ask in (embedder.embed_text, embedder.embed_query):
        with pytest.raises(EmbedderUnavailable, match="no such model"):
            await ask(TEXT)
    await embedder.close()


@pytest.mark.parametrize(
    "wrong",
    [
        answer([1.0] * (DIMS - 1)),
        answer([1.0] * DIMS, [1.0] * DIMS),
        answer(),
        answer([0.0] * DIMS),
        answer([1e308] * DIMS),
        answer(["x"] * DIMS),
        JSONResponse({"data": [{"index": 1, "embedding": [1.0] * DIMS}]}),
        JSONResponse({"data": None}),
        JSONResponse([]),
        Response("<html>gateway</html>"),
    ],
    ids=["short", "two", "none", "zero", "infinite", "words", "misnumbered", "null", "list", "html"],
)
async def test_an_answer_that_is_not_what_was_asked_for_is_never_believed(server, embedder, wrong):
    server.answers.append(wrong)
    with pytest.raises(EmbedderUnavailable):
        await embedder.embed_text(TEXT)


async def test_an_answer_without_end_is_cut(server, embedder, monkeypatch):
    monkeypatch.setattr(endpoints, "ANSWER_BYTES", 100)
    with pytest.raises(EmbedderUnavailable, match="over 100 bytes"):
        await embedder.embed_text(TEXT)


async def test_an_endpoint_that_hangs_is_given_up(server, embedder, monkeypatch):
    monkeypatch.setattr(endpoints, "QUERY_S", 0.1)
    server.hanging = True
    with pytest.raises(EmbedderUnavailable, match=r"within 0\.1 s"):
        await embedder.embed_query(TEXT)


async def test_an_endpoint_that_is_not_there_yet_is_an_outage_until_it_is(server):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    embedder = EndpointEmbedder(EmbeddingEndpoint(url=f"http://127.0.0.1:{port}/v1", model=MODEL, dims=DIMS))
    with pytest.raises(EmbedderUnavailable, match="cannot be reached"):
        await embedder.embed_text(TEXT)
    with running(EndpointServer({MODEL: DIMS}, port=port)):
        assert (await embedder.embed_text(TEXT)).shape == (1, DIMS)
        await embedder.close()


async def test_while_the_endpoint_asks_for_peace_it_is_left_alone(server, embedder):
    """A question does without at once; what is asked in between is not sent."""
    server.answers.append(JSONResponse({}, 429, headers={"retry-after": "60"}))
    with pytest.raises(EmbedderUnavailable, match="429"):
        await embedder.embed_query(TEXT)
    for ask in (embedder.embed_query, embedder.embed_text):
        with pytest.raises(EmbedderUnavailable, match="left alone"):
            await ask(TEXT)
    assert len(server.asked) == 1


async def test_a_text_waits_as_long_as_the_endpoint_asks(server, embedder):
    server.answers.append(JSONResponse({}, 503, headers={"retry-after": "1"}))
    with pytest.raises(EmbedderUnavailable, match="503"):
        await embedder.embed_text(TEXT)
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert (await embedder.embed_text(TEXT)).shape == (1, DIMS)
    assert loop.time() - began > 0.5


def test_retry_after_is_read_in_both_forms():
    now = datetime(2026, 6, 1, 12, tzinfo=UTC)
    assert retry_after_s("7", now) == 7
    assert retry_after_s("Mon, 01 Jun 2026 12:00:30 GMT", now) == 30
    assert [retry_after_s(value, now) for value in ("Mon, 01 Jun 2026 11:00:00 GMT", "", "soon", "-3")] == [0, 0, 0, 0]


def test_a_text_is_cut_where_its_tokens_are():
    words = [f"word{number:03}" for number in range(100)]
    pieces = cut(" ".join(words), 64, 64)
    assert all(word in " ".join(pieces) for word in words)
    assert max(len(piece.split()) for piece in pieces) <= 33
    assert cut("数据库迁移" * 20, 50, 64)[0] == ("数据库迁移" * 20)[:50]
    assert len(cut("数据库迁移" * 6_400, 16, 64)) == 64
    assert cut("short", 16, 64) == ["short"]


async def test_the_catalogue_opens_what_the_settings_name_when_it_is_needed(server):
    settings = Settings(
        embedder="endpoint",
        embedder_url=server.url,
        embedder_model=MODEL,
        embedder_dims=DIMS,
        other_embedders=(server.endpoint("words-wide"),),
    )
    catalogue = await Catalogue.open(settings, 1)
    assert catalogue.names()[:2] == (f"{MODEL}/{DIMS}", "all-MiniLM-L6-v2/fused-int8")
    assert "words-wide/96" in catalogue.names()
    wide = await catalogue.of("words-wide/96")
    assert wide is await catalogue.of("words-wide/96")
    assert await catalogue.of(None) is catalogue.wanted is await catalogue.of(f"{MODEL}/{DIMS}")
    one, other = await catalogue.wanted.embed_query(TEXT), await wide.embed_query(TEXT)
    assert (one.shape, other.shape) == ((DIMS,), (96,))
    assert np.linalg.norm(other) == pytest.approx(1.0, abs=1e-6)
    assert (await catalogue.of("hashed-terms/32")).dims == 32
    with pytest.raises(UnknownModel, match=f"nobody/7.*{MODEL}/{DIMS}.*cortex model change"):
        await catalogue.of("nobody/7")
    await catalogue.close()
    with pytest.raises(EmbedderUnavailable):
        await wide.embed_query(TEXT)


@pytest.mark.parametrize(
    "given",
    [
        {"embedder": "endpoint"},
        {"embedder": "endpoint", "embedder_url": "http://127.0.0.1:1/v1", "embedder_model": "m"},
        {"embedder_url": "ftp://x", "embedder_model": "m", "embedder_dims": 3},
        {"other_embedders": [{"url": "http://a/v1", "model": "m", "dims": 3}] * 2},
    ],
)
def test_settings_of_half_an_endpoint_are_refused(given):
    with pytest.raises(ValueError, match=r"embedd|url"):
        Settings(**given)
