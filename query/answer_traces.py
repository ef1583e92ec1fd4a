"""The span of an answer, with links to the traces of the events that it rests on. Costs nothing while tracing is off."""

from contextlib import AbstractContextManager

import anyio
import orjson
import structlog

from schemas.answers import Answer
from schemas.positions import Position
from shared.errors import CortexError
from shared.log import EventLog
from shared.store import KnowledgeReader
from shared.tracing import RequestSpan, Traces

LINKED = 10  # the best results; each link is a look into the log
LINK_S = 0.5  # a look takes a millisecond; an answer does not wait for its trace

_log = structlog.get_logger("cortex.query")


class AnswerTraces:
    """Spans of answers."""

    def __init__(self, traces: Traces, reader: KnowledgeReader, log: EventLog) -> None:
        self._traces = traces
        self._reader = reader
        self._event_log = log

    def answering(self, traceparent: str | None) -> AbstractContextManager[RequestSpan]:
        """Measure an answer as part of its caller's trace, or of a new one."""
        return self._traces.request("answer", traceparent)

    async def cite(self, span: RequestSpan, answer: Answer) -> None:
        """Link to the producers of the best results, as far as their events say who followed them."""
        if not span.links_wanted:
            return
        try:
            with anyio.fail_after(LINK_S):
                for token in await self._positions(answer):
                    record = await self._event_log.at(Position.from_token(token))
                    if record is not None:
                        span.link(orjson.loads(record.body).get("traceparent"))
        except (TimeoutError, CortexError) as error:
            _log.info("trace.without_links", error=type(error).__name__)

    async def _positions(self, answer: Answer) -> list[str]:
        """Return the tokens of the events that set the best results' present revisions."""
        ids = [result.unit_id for result in answer.results[:LINKED]]
        if not ids:
            return []
        async with self._reader.snapshot(answer.tenant) as snapshot:
            found = await snapshot.units(ids)
        return [found[unit_id].known.state.position for unit_id in ids if unit_id in found]
