"""A real embedding endpoint on loopback: it answers as OpenAI's does, with hashed terms in place of a model."""

import asyncio
import socket
import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from shared.embedders.hashed import HashedEmbedder
from shared.settings import EmbeddingEndpoint

START_S = 10.0
TURN = 7
NEVER = 10**9
KEY = "a-secret-key"


@dataclass
class EndpointServer:
    """What it does can be set while it runs. ``models``: dimensions by name; one in ``turned`` has a space of its own.

    ``held_after``: a model answers no more once it has served so many texts, until the entry is taken out.
    """

    models: dict[str, int]
    turned: frozenset[str] = frozenset()
    port: int = 0
    key: str | None = None
    refused: str | None = None
    answers: deque[Response] = field(default_factory=deque)
    asked: list[dict[str, Any]] = field(default_factory=list)
    hanging: bool = False
    served: Counter[str] = field(default_factory=Counter)
    held_after: dict[str, int] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def endpoint(self, model: str, **given: object) -> EmbeddingEndpoint:
        """Return the settings of one of its models."""
        return EmbeddingEndpoint(**{"url": self.url, "model": model, "dims": self.models[model], **given})

    @property
    def texts(self) -> list[str]:
        """Every text it was asked for, in order."""
        return [text for body in self.asked for text in body["input"]]

    async def embed(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body)
        while self.hanging or self.served[body["model"]] >= self.held_after.get(body["model"], NEVER):  # noqa: ASYNC110 - released by another thread, which sets no event
            await asyncio.sleep(0.005)
        if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
            return JSONResponse({"error": {"message": "wrong key"}}, 401)
        if self.answers:
            return self.answers.popleft()
        if body["model"] not in self.models:
            return JSONResponse({"error": {"message": "no such model"}}, 400)
        if any(not text or (self.refused is not None and self.refused in text) for text in body["input"]):
            return JSONResponse({"error": {"message": "this input is refused"}}, 400)
        dims = body.get("dimensions", self.models[body["model"]])
        rows = [await self._vector(text, body["model"], dims) for text in body["input"]]
        self.served[body["model"]] += len(rows)
        data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
        return JSONResponse({"object": "list", "model": body["model"], "data": data[::-1]})

    async def _vector(self, text: str, model: str, dims: int) -> list[float]:
        """Twice as long as it should be: the caller makes it a unit vector."""
        vector = 2 * await HashedEmbedder(dims).embed_query(text)
        return [float(value) for value in (np.roll(vector, TURN) if model in self.turned else vector)]


@contextmanager
def running(server: EndpointServer) -> Iterator[EndpointServer]:
    """Serve in a thread of its own, on a port of its own."""
    app = Starlette(routes=[Route("/v1/embeddings", server.embed, methods=["POST"])])
    with socket.create_server(("127.0.0.1", server.port)) as listening:
        server.port = listening.getsockname()[1]
        config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1)
        serving = uvicorn.Server(config)
        thread = threading.Thread(target=serving.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            serving.should_exit = True
            thread.join(START_S)
            assert not thread.is_alive()
