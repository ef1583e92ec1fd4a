"""An embedder turns a text into unit vectors that depend on that text alone; each rule holds with and without a model."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest

from shared.embedder import Embedder
from shared.embedders import minilm, minilm_graph
from shared.embedders.endpoint import EndpointEmbedder
from shared.embedders.hashed import HashedEmbedder
from shared.embedders.minilm import MiniLMEmbedder
from shared.errors import EmbedderUnavailable
from tests.endpoint_server import EndpointServer, running

pytestmark = pytest.mark.anyio  # leaves the plain functions alone

CERTIFICATE = "The deploy failed because the gateway's certificate expired."
SENTENCES = [
    CERTIFICATE,
    "We chose Postgres over Mongo for billing, since payments need transactions.",
    "Ann owns the on-call rota of the platform team.",
    "请在部署之前运行数据库迁移。",
]


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def server() -> Iterator[EndpointServer]:
    with running(EndpointServer({"words": 256})) as serving:
        yield serving


@pytest.fixture(params=["hashed", "plain", "fused-int8", "endpoint"])
async def embedder(request: pytest.FixtureRequest, cache_dir: Path) -> AsyncIterator[Embedder]:
    if request.param == "hashed":
        made: Embedder = HashedEmbedder()
    elif request.param == "endpoint":
        made = EndpointEmbedder(request.getfixturevalue("server").endpoint("words", window_tokens=254))
    else:
        made = await MiniLMEmbedder.open(1, cache_dir, variant=request.param)
    yield made
    await made.close()


async def test_vectors_have_the_stated_length_and_unit_norm(embedder):
    query = await embedder.embed_query("why did the deploy fail?")
    assert (query.shape, query.dtype) == ((embedder.dims,), np.float32)
    for text in [*SENTENCES, "", " \n", "!?", "x", "\ud800 lone surrogate", "\x07 control", "🚀" * 50]:
        rows = await embedder.embed_text(text)
        assert (rows.shape, rows.dtype) == ((1, embedder.dims), np.float32)
        assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0, abs=1e-5)


async def test_a_vector_does_not_depend_on_what_is_embedded_beside_it(embedder):
    """Bit for bit: alone, among others at once, and again."""
    alone = [await embedder.embed_text(text) for text in SENTENCES]
    together = await asyncio.gather(*(embedder.embed_text(text) for text in reversed(SENTENCES * 3)))
    for text, rows in zip(reversed(SENTENCES * 3), together, strict=True):
        assert np.array_equal(rows, alone[SENTENCES.index(text)])


async def test_a_question_lies_nearest_the_text_that_shares_its_words(embedder):
    query = await embedder.embed_query("why did the deploy fail, was it the certificate of the gateway?")
    near = [float((await embedder.embed_text(text))[0] @ query) for text in SENTENCES]
    assert int(np.argmax(near)) == 0


async def test_a_short_text_and_the_same_question_have_one_vector(embedder):
    assert np.array_equal(await embedder.embed_query(CERTIFICATE), (await embedder.embed_text(CERTIFICATE))[0])


async def test_a_long_text_has_a_row_for_each_part_and_its_end_can_be_found(embedder):
    filler = "The meeting went on about seating plans and coffee. " * 90
    rows = await embedder.embed_text(filler + CERTIFICATE)
    query = await embedder.embed_query("deploy failed, gateway certificate expired")
    assert 2 < len(rows) <= 64
    assert int(np.argmax(rows @ query)) == len(rows) - 1


async def test_the_longest_unit_is_bounded(cache_dir):
    """32,000 characters of Chinese are as many tokens: sampled evenly instead of growing without bound."""
    embedder = await MiniLMEmbedder.open(1, cache_dir, variant="fused-int8")
    rows = await embedder.embed_text("数据库迁移" * 6_400)
    assert len(rows) == 64
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(64), abs=1e-5)
    await embedder.close()


async def test_a_long_question_is_one_vector(embedder):
    question = await embedder.embed_query("why does this log say that? " * 140)
    assert question.shape == (embedder.dims,)
    assert np.linalg.norm(question) == pytest.approx(1.0, abs=1e-5)


async def test_a_cancelled_caller_leaves_it_usable(embedder):
    task = asyncio.create_task(embedder.embed_text("word " * 5_000))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)  # the one without a model may have been quicker
    assert (await embedder.embed_query("still there?")).shape == (embedder.dims,)


async def test_after_closing_it_is_a_typed_error(embedder):
    await embedder.close()
    with pytest.raises(EmbedderUnavailable):
        await embedder.embed_query("too late")


async def test_whoever_waits_while_it_closes_gets_the_typed_error(cache_dir):
    """Not a cancellation that nobody asked for."""
    embedder = await MiniLMEmbedder.open(1, cache_dir, variant="plain")
    waiting = [asyncio.create_task(embedder.embed_text("word " * 2_000)) for _ in range(4)]
    await asyncio.sleep(0)
    await embedder.close()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {EmbedderUnavailable}


async def test_each_variant_has_a_name_of_its_own(cache_dir):
    """Vectors of two names are never compared, so the name must tell every difference."""
    plain, fused = await _open_both(cache_dir)
    names = {plain.model, fused.model, HashedEmbedder(64).model, HashedEmbedder(128).model}
    assert {"all-MiniLM-L6-v2/plain", "all-MiniLM-L6-v2/fused-int8"} < names
    assert len(names) == 4
    await asyncio.gather(plain.close(), fused.close())


@pytest.mark.skipif(
    not minilm_graph.has_vnni(), reason="int8 products saturate without VNNI; the plain file is used there"
)
async def test_the_fused_graph_means_what_the_plain_file_means(cache_dir):
    plain, fused = await _open_both(cache_dir)
    for text in SENTENCES:
        assert float((await plain.embed_text(text))[0] @ (await fused.embed_text(text))[0]) > 0.98
    await asyncio.gather(plain.close(), fused.close())


def test_a_torn_graph_in_the_cache_is_built_anew(tmp_path, monkeypatch):
    """What is built does not matter here, only how often; the real graph is built by the tests above."""
    built = []

    def build(weights: bytes) -> bytes:
        built.append(weights)
        return b"graph of " + weights

    monkeypatch.setattr(minilm_graph, "build", build)
    assert minilm_graph.fused(b"weights", "0" * 64, tmp_path) == b"graph of weights"
    (kept,) = tmp_path.iterdir()
    whole = kept.read_bytes()
    assert minilm_graph.fused(b"weights", "0" * 64, tmp_path) == b"graph of weights"
    assert len(built) == 1, "taken from the folder"
    for number, damaged in enumerate((whole[:-3], b"", whole[:-1] + bytes([whole[-1] ^ 1])), start=2):
        kept.write_bytes(damaged)
        assert minilm_graph.fused(b"weights", "0" * 64, tmp_path) == b"graph of weights"
        assert (len(built), kept.read_bytes()) == (number, whole)
    assert list(tmp_path.iterdir()) == [kept], "no temporary file stays"


async def test_a_cache_folder_that_cannot_be_made_costs_time_and_nothing_else(tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    embedder = await MiniLMEmbedder.open(1, in_the_way / "models", variant="fused-int8")
    assert (await embedder.embed_query("hello")).shape == (384,)
    await embedder.close()


async def test_other_weights_are_refused(tmp_path, monkeypatch):
    """A package of the same name with other contents must not silently give other vectors."""
    other = tmp_path / "model.onnx"
    other.write_bytes(b"not the model")
    monkeypatch.setattr(minilm, "model_path", lambda: other)
    with pytest.raises(EmbedderUnavailable, match="SHA-256"):
        await MiniLMEmbedder.open(1, tmp_path)


async def test_a_model_that_cannot_be_loaded_is_a_typed_error(tmp_path, monkeypatch):
    """A file that has the right digest and is no model: onnxruntime's own errors do not come through."""
    junk = tmp_path / "model.onnx"
    junk.write_bytes(b"junk")
    monkeypatch.setattr(minilm, "model_path", lambda: junk)
    monkeypatch.setattr(minilm, "WEIGHTS_SHA256", hashlib.sha256(b"junk").hexdigest())
    with pytest.raises(EmbedderUnavailable, match="cannot be loaded"):
        await MiniLMEmbedder.open(1, tmp_path, variant="plain")


def test_the_vocabulary_in_the_tree_is_the_tested_one():
    assert hashlib.sha256(minilm.VOCAB.read_bytes()).hexdigest() == minilm.VOCAB_SHA256


async def _open_both(cache_dir: Path) -> tuple[MiniLMEmbedder, MiniLMEmbedder]:
    plain = await MiniLMEmbedder.open(1, cache_dir, variant="plain")
    return plain, await MiniLMEmbedder.open(1, cache_dir, variant="fused-int8")
