"""OpenTelemetry, and the only module that imports it: spans of stages and answers. Off by default, and then not loaded.

An event carries its producer's context as W3C ``traceparent``. Each stage that handles it adds one span to the producer's
trace, where the producer sampled it; an answer's span has links to the traces of the events it cites. Spans carry ids and
places, never texts.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self
from urllib.parse import urlsplit

from shared.errors import InvalidInput

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import Link, Span

EXPORT_S = 5.0  # for one request to the collector, and for the last one at the end
SPANS_WAITING = 8_192  # some 10 MB; of more, the oldest are dropped: a collector that is away holds nothing up
TRACES_PATH = "/v1/traces"  # what OTLP over HTTP adds to a collector's address
SAMPLED = 0x01

# W3C Trace Context, 2.2: later versions may add fields behind these; ff is no version
_TRACEPARENT = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(-.*)?"
)

Attributes = Mapping[str, str | int]


@dataclass(frozen=True)
class Parent:
    """The span that a ``traceparent`` names."""

    trace_id: int
    span_id: int
    sampled: bool


def parent_of(traceparent: object) -> Parent | None:
    """Read a ``traceparent``; None for anything that is not a valid one."""
    found = _TRACEPARENT.fullmatch(traceparent) if isinstance(traceparent, str) else None
    if found is None or found["version"] == "ff" or (found["version"] == "00" and found[5]):
        return None
    parent = Parent(int(found["trace"], 16), int(found["span"], 16), bool(int(found["flags"], 16) & SAMPLED))
    return parent if parent.trace_id and parent.span_id else None


class RequestSpan(Protocol):
    """The span of a request that is being answered."""

    @property
    def links_wanted(self) -> bool:
        """Whether links are kept: only then are they worth looking up."""
        ...

    def link(self, traceparent: object) -> None:
        """Link to what a ``traceparent`` names, if it is one."""
        ...


class Traces(Protocol):
    """Where spans go."""

    @property
    def on(self) -> bool:
        """Whether they go anywhere."""
        ...

    def stage(self, name: str, events: Sequence[tuple[object, Attributes]]) -> AbstractContextManager[None]:
        """Measure a stage's work on events, each given as its ``traceparent`` and attributes: one span each."""
        ...

    def request(self, name: str, traceparent: str | None) -> AbstractContextManager[RequestSpan]:
        """Measure a request as part of its caller's trace, or of a new one."""
        ...

    async def close(self) -> None:
        """Send what waits, within EXPORT_S."""
        ...


class _NoSpan:
    links_wanted = False

    def link(self, traceparent: object) -> None:
        """Keep nothing."""


class NoTraces:
    """Traces nothing, at no cost."""

    on = False

    def stage(self, name: str, events: Sequence[tuple[object, Attributes]]) -> AbstractContextManager[None]:
        """Measure nothing."""
        del name, events
        return nullcontext()

    def request(self, name: str, traceparent: str | None) -> AbstractContextManager[RequestSpan]:
        """Measure nothing."""
        del name, traceparent
        return nullcontext(_NO_SPAN)

    async def close(self) -> None:
        """Close nothing."""


_NO_SPAN = _NoSpan()
NO_TRACES = NoTraces()


def open_traces(endpoint: str | None, service: str) -> Traces:
    """Return where spans go: nowhere without an endpoint. Raises InvalidInput."""
    return NO_TRACES if endpoint is None else OpenTelemetry.to_collector(endpoint, service)


class OpenTelemetry:
    """Spans by the OpenTelemetry SDK."""

    on = True

    def __init__(self, processor: "SpanProcessor", service: str) -> None:
        """``processor`` gets each span at its end."""
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - loaded only where tracing is on
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - as above

        # sampling is OpenTelemetry's default: as the parent says, and everything that has no parent
        provider = TracerProvider(resource=Resource.create({"service.name": service}), shutdown_on_exit=False)
        provider.add_span_processor(processor)
        self._provider = provider
        self._tracer = provider.get_tracer("cortex")

    @classmethod
    def to_collector(cls, endpoint: str, service: str) -> Self:
        """Send spans to a collector by OTLP over HTTP. Raises InvalidInput where that is not installed or no address."""
        address = urlsplit(endpoint)
        if address.scheme not in {"http", "https"} or not address.hostname:
            raise InvalidInput("CORTEX_OTLP_ENDPOINT is not an address like http://127.0.0.1:4318")
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - only where tracing is on
                OTLPSpanExporter,
            )
            from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - as above
        except ImportError as error:
            raise InvalidInput(
                "CORTEX_OTLP_ENDPOINT is set, but OpenTelemetry is not installed: install the extra 'otel'"
            ) from error
        whole = endpoint if address.path.strip("/") else endpoint.rstrip("/") + TRACES_PATH
        exporter = OTLPSpanExporter(endpoint=whole, timeout=EXPORT_S)
        return cls(BatchSpanProcessor(exporter, max_queue_size=SPANS_WAITING), service)

    @contextmanager
    def stage(self, name: str, events: Sequence[tuple[object, Attributes]]) -> Iterator[None]:
        """Measure a stage's work on events; those whose producer did not sample them get no span."""
        with ExitStack() as stack:
            for traceparent, attributes in events:
                parent = parent_of(traceparent)
                if parent is not None and parent.sampled:
                    stack.enter_context(self._span(name, parent, attributes, consumer=True))
            yield

    @contextmanager
    def request(self, name: str, traceparent: str | None) -> Iterator[RequestSpan]:
        """Measure a request."""
        with self._span(name, parent_of(traceparent), {}, consumer=False) as span:
            yield _Answering(span)

    async def close(self) -> None:
        """Send what waits. The SDK waits in its own way, so a thread does."""
        try:
            async with asyncio.timeout(EXPORT_S):
                await asyncio.to_thread(self._provider.shutdown)
        except TimeoutError:
            return

    @contextmanager
    def _span(self, name: str, parent: Parent | None, attributes: Attributes, *, consumer: bool) -> Iterator["Span"]:
        from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415 - loaded already where we come here

        kind = SpanKind.CONSUMER if consumer else SpanKind.SERVER
        span = self._tracer.start_span(name, _context(parent), kind, dict(attributes))
        try:
            yield span
        except Exception as error:
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))  # its words may quote what was published
            raise
        finally:
            span.end()


class _Answering:
    def __init__(self, span: "Span") -> None:
        self._span = span

    @property
    def links_wanted(self) -> bool:
        """Whether the span is sampled."""
        return self._span.is_recording()

    def link(self, traceparent: object) -> None:
        """Link to an event's producer."""
        parent = parent_of(traceparent)
        if parent is not None:
            self._span.add_link(_link(parent).context)


def _link(parent: Parent) -> "Link":
    from opentelemetry.trace import Link, SpanContext, TraceFlags  # noqa: PLC0415 - loaded already where we come here

    flags = TraceFlags(TraceFlags.SAMPLED if parent.sampled else TraceFlags.DEFAULT)
    return Link(SpanContext(parent.trace_id, parent.span_id, is_remote=True, trace_flags=flags))


def _context(parent: Parent | None) -> "Context":
    """Return a context with nothing but the parent: what else runs in this task has no say."""
    from opentelemetry.context import Context  # noqa: PLC0415 - loaded already where we come here
    from opentelemetry.trace import NonRecordingSpan, set_span_in_context  # noqa: PLC0415 - as above

    if parent is None:
        return Context()
    return set_span_in_context(NonRecordingSpan(_link(parent).context), Context())
