"""One transaction for many lanes: what waits while a transaction runs goes together into the next."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from ingest.delivery import Verdict, rule_for
from shared.store import Applied, Effect, KnowledgeWriter

TRANSACTION_EFFECTS = 512  # keeps the writer's lock to some tens of milliseconds


@dataclass(frozen=True)
class _Request:
    effects: Sequence[Effect]
    answer: "asyncio.Future[list[Applied]]"


class Batcher:
    """Shares the writer among lanes. Each lane waits for its answer, so at most one request a lane is under way."""

    def __init__(self, writer: KnowledgeWriter) -> None:
        self._writer = writer
        self._waiting: dict[str, list[_Request]] = {}
        self._arrived = asyncio.Event()

    async def apply(self, tenant: str, effects: Sequence[Effect]) -> list[Applied]:
        """Make effects durable, together with those of other lanes; all of these or none. Raises what the writer does."""
        answer: asyncio.Future[list[Applied]] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, []).append(_Request(effects, answer))
        self._arrived.set()
        return await answer

    async def run(self) -> None:
        """Serve requests until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            waiting, self._waiting = self._waiting, {}
            for tenant, requests in waiting.items():
                for together in _transactions(requests):
                    await self._serve(tenant, together)

    async def _serve(self, tenant: str, requests: Sequence[_Request]) -> None:
        wanted = [request for request in requests if not request.answer.cancelled()]
        effects = [effect for request in wanted for effect in request.effects]
        try:
            applied = await self._writer.apply(tenant, effects)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever asked
            await self._refuse(tenant, wanted, error)
            return
        start = 0
        for request in wanted:
            end = start + len(request.effects)
            if not request.answer.done():
                request.answer.set_result(applied[start:end])
            start = end

    async def _refuse(self, tenant: str, requests: Sequence[_Request], error: Exception) -> None:
        """Tell everyone of an outage; otherwise find whose effect it was, by one transaction each."""
        if len(requests) > 1 and rule_for(error).verdict is not Verdict.WAIT:
            for request in requests:
                await self._serve(tenant, [request])
            return
        for request in requests:
            if not request.answer.done():
                request.answer.set_exception(error)


def _transactions(requests: Sequence[_Request]) -> list[list[_Request]]:
    parts: list[list[_Request]] = [[]]
    size = 0
    for request in requests:
        if parts[-1] and size + len(request.effects) > TRANSACTION_EFFECTS:
            parts.append([])
            size = 0
        parts[-1].append(request)
        size += len(request.effects)
    return parts
