"""An embedder behind an OpenAI-compatible ``/v1/embeddings`` endpoint."""

import asyncio
import email.utils
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import httpx
import numpy as np

from shared.embedder import Vector, Vectors
from shared.embedders.windows import windows
from shared.errors import EmbedderUnavailable, InvalidInput
from shared.settings import EmbeddingEndpoint

QUERY_S: Final = 2.0  # a question's whole answer has 3 s: later than this, its vector is of no use
TEXT_S: Final = 30.0  # a request of 16 windows, on a processor alone; the embed stage itself gives up after 60 s
PATIENCE_S: Final = 20.0  # a text waits as long where the endpoint asks for it; a longer wait is the caller's backoff
RETRY_AFTER_LIMIT_S: Final = 300.0  # an endpoint that asks for hours is asked again sooner: it may have been restarted
CONNECTIONS: Final = 8  # at once; ingest has two texts on their way in each lane, questions a few
REQUEST_WINDOWS: Final = 16  # windows of one text in a request; endpoints bound both inputs and tokens
TEXT_WINDOWS: Final = 64  # as many as the built-in model gives a text
QUERY_WINDOWS: Final = 4
OVERLAP_SHARE: Final = 8  # an eighth of a window: what spans a border is whole in one of the two
ANSWER_BYTES: Final = 32 * 1024 * 1024  # 16 vectors of 16,384 numbers of 25 characters are 6.5 MB
REFUSALS: Final = frozenset({400, 413, 422})  # what an endpoint says of an input, and some of a wrong setting
PROBE: Final = "Is the embedder well?"
BLANK: Final = "."  # in place of a text without a character to see, which endpoints refuse; no unit has such a text

# Estimated tokens: four letters or digits of an alphabetic script, or any other character. Word-piece and byte-pair models
# need fewer for usual words, so that a window seldom has more than it should.
_TOKEN = re.compile(r"[0-9A-Za-z\u00c0-\u024f]{1,4}|\S")


class EndpointEmbedder:
    """An `Embedder` that asks an endpoint. Nothing is sent before the first text, so that it may start after us.

    The windows of one text go together, those of two texts never: a vector depends on its own text alone.
    """

    def __init__(self, endpoint: EmbeddingEndpoint) -> None:
        self._endpoint = endpoint
        key = endpoint.key
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {key.get_secret_value()}"} if key else {},
            limits=httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
        )
        self._url = f"{endpoint.url.rstrip('/')}/embeddings"
        self._closed = False
        self._not_before = 0.0  # on the loop's clock

    @property
    def model(self) -> str:
        """Name of model and variant; vectors of two names are never compared."""
        return self._endpoint.name

    @property
    def dims(self) -> int:
        """Length of a vector."""
        return self._endpoint.dims

    async def embed_query(self, text: str) -> Vector:
        """Embed a question; one longer than a window is the mean of up to four. Raises EmbedderUnavailable, InvalidInput."""
        rows = await self._embed(text, QUERY_WINDOWS, QUERY_S, patience_s=0.0)
        return rows[0] if len(rows) == 1 else _unit(rows.mean(axis=0))

    async def embed_text(self, text: str) -> Vectors:
        """Embed a unit's text, a row a window, at most 64. Raises EmbedderUnavailable, and InvalidInput where the endpoint
        refuses this text and takes others.
        """
        return await self._embed(text, TEXT_WINDOWS, TEXT_S, patience_s=PATIENCE_S)

    async def close(self) -> None:
        """Close the connections; calls that come later raise EmbedderUnavailable."""
        self._closed = True
        await self._client.aclose()

    async def _embed(self, text: str, most: int, timeout_s: float, *, patience_s: float) -> Vectors:
        inputs = cut(text, self._endpoint.window_tokens, most)
        rows = []
        for start in range(0, len(inputs), REQUEST_WINDOWS):
            await self._until_welcome(patience_s)
            rows.append(await self._ask(inputs[start : start + REQUEST_WINDOWS], timeout_s))
        return np.concatenate(rows)

    async def _until_welcome(self, patience_s: float) -> None:
        """Wait where the endpoint has asked for it and the caller can, else say that it has."""
        left_s = self._not_before - asyncio.get_running_loop().time()
        if left_s > patience_s:
            raise EmbedderUnavailable(f"{self.model}: the endpoint asks to be left alone for {left_s:.0f} s more")
        if left_s > 0:
            await asyncio.sleep(left_s)

    async def _ask(self, inputs: Sequence[str], timeout_s: float) -> Vectors:
        answer = await self._post(inputs, timeout_s)
        if answer.status_code in REFUSALS:
            await self._blame(answer, inputs, timeout_s)
        if not answer.is_success:
            self._note_retry_after(answer)
            raise EmbedderUnavailable(f"{self.model}: the endpoint answered {answer.status_code}")
        return self._vectors(answer, len(inputs))

    async def _blame(self, answer: httpx.Response, inputs: Sequence[str], timeout_s: float) -> None:
        """A refusal is the text's fault where another text is taken; else it is a setting's, and no text may pay for it."""
        said = f"{self.model}: the endpoint answered {answer.status_code}: {_shown(answer.text)}"
        if list(inputs) != [PROBE] and (await self._post([PROBE], timeout_s)).is_success:
            raise InvalidInput(said)
        raise EmbedderUnavailable(said)

    async def _post(self, inputs: Sequence[str], timeout_s: float) -> httpx.Response:
        """Ask once. Every failure below HTTP is the endpoint's: EmbedderUnavailable."""
        if self._closed:
            raise EmbedderUnavailable("the embedder is closed")
        body: dict[str, Any] = {"model": self._endpoint.model, "input": inputs, "encoding_format": "float"}
        if self._endpoint.send_dims:
            body["dimensions"] = self.dims
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._client.stream("POST", self._url, json=body, timeout=None) as sent,
            ):
                received = bytearray()
                async for part in sent.aiter_bytes():
                    received += part
                    if len(received) > ANSWER_BYTES:
                        raise EmbedderUnavailable(f"{self.model}: the endpoint's answer is over {ANSWER_BYTES} bytes")
                return httpx.Response(sent.status_code, headers=_told(sent.headers), content=bytes(received))
        except TimeoutError as error:
            raise EmbedderUnavailable(f"{self.model}: no answer of the endpoint within {timeout_s:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL, RuntimeError) as error:  # RuntimeError: the client was closed
            raise EmbedderUnavailable(f"{self.model}: the endpoint cannot be reached: {error!r}") from error

    def _vectors(self, answer: httpx.Response, count: int) -> Vectors:
        """Read vectors. Raises EmbedderUnavailable for any that is not what was asked for: they would poison the index."""
        try:
            data = sorted(answer.json()["data"], key=lambda item: item["index"])
            rows = np.array([item["embedding"] for item in data], dtype=np.float64)
            indices = [item["index"] for item in data]
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise EmbedderUnavailable(f"{self.model}: the endpoint's answer cannot be read: {error!r}") from error
        if indices != list(range(count)) or rows.shape != (count, self.dims):
            raise EmbedderUnavailable(
                f"{self.model}: the endpoint answered with {rows.shape}, not with {count} vectors of {self.dims} dimensions"
            )
        with np.errstate(over="ignore"):  # too long to be measured is no vector either
            lengths = np.linalg.norm(rows, axis=1)
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise EmbedderUnavailable(f"{self.model}: the endpoint answered with a vector that has no direction")
        unit: Vectors = (rows / lengths[:, np.newaxis]).astype(np.float32)
        return unit

    def _note_retry_after(self, answer: httpx.Response) -> None:
        wait_s = min(retry_after_s(answer.headers.get("retry-after", ""), datetime.now(UTC)), RETRY_AFTER_LIMIT_S)
        if wait_s > 0:
            self._not_before = asyncio.get_running_loop().time() + wait_s


def cut(text: str, size: int, most: int) -> list[str]:
    """Return the windows of a text of about ``size`` tokens each; the whole text where it has no more."""
    readable = text.encode("utf-8", "replace").decode()  # JSON could say a lone surrogate, few endpoints would take it
    tokens = list(_TOKEN.finditer(readable))
    spans = windows(len(tokens), size, size // OVERLAP_SHARE, most)
    if not tokens:
        return [BLANK]
    if len(spans) == 1 and spans[0][1] == len(tokens):
        return [readable]
    return [readable[tokens[start].start() : tokens[end - 1].end()] for start, end in spans]


def retry_after_s(value: str, now: datetime) -> float:
    """Return the seconds that a ``Retry-After`` header asks for (RFC 9110, 10.2.3); 0 for none and for nonsense."""
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(0.0, (email.utils.parsedate_to_datetime(value) - now).total_seconds())
    except (ValueError, TypeError):
        return 0.0


def _told(headers: httpx.Headers) -> dict[str, str]:
    return {name: headers[name] for name in ("content-type", "retry-after") if name in headers}


def _shown(body: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in body[:300]).split())


def _unit(vector: Vector) -> Vector:
    return (vector / np.linalg.norm(vector)).astype(np.float32)
