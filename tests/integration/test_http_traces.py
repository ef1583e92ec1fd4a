"""Answers in traces: an answer's span is part of its caller's trace and links to the producers of what it rests on."""

import asyncio
import socket
import threading
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from query.answer_traces import AnswerTraces
from schemas.events import parse_event
from shared.errors import StoreUnavailable
from shared.settings import Settings
from shared.tracing import EXPORT_S, OpenTelemetry, open_traces
from tests.integration.http_service import in_process, make_parts
from tests.integration.test_http_events import event

pytestmark = [pytest.mark.integration, pytest.mark.anyio]

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = f"00-{TRACE}-b7ad6b7169203331-01"
PRODUCER = f"00-{'c' * 32}-{'d' * 16}-01"


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def traces(exporter):
    return OpenTelemetry(SimpleSpanProcessor(exporter), "cortex-query")


@pytest.mark.parametrize("path", ["/v1/context", "/v1/context/stream"])
async def test_an_answer_is_a_span_of_its_caller_s_trace(traces, exporter, path):
    parts = make_parts()
    parts.traces = traces
    async with in_process(Settings(), parts) as client:
        answer = await client.get(path, params={"q": "what is known"}, headers={"traceparent": CALLER})
        assert answer.status_code == 200
    (span,) = exporter.get_finished_spans()
    assert span.name == "answer"
    assert f"{span.context.trace_id:032x}" == TRACE


async def test_a_question_that_failed_ends_its_span_as_an_error(traces, exporter):
    parts = make_parts()
    parts.traces = traces
    parts.answers.failure = StoreUnavailable("unreadable")
    async with in_process(Settings(), parts) as client:
        assert (await client.get("/v1/context", params={"q": "fail first"})).status_code == 503
    (span,) = exporter.get_finished_spans()
    assert span.status.description == "StoreUnavailable"


class Collector(ThreadingHTTPServer):
    """Takes what an exporter sends."""

    daemon_threads = True

    def __init__(self) -> None:
        self.paths: list[str] = []
        super().__init__(("127.0.0.1", 0), Taker)


class Taker(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.paths.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


async def test_spans_are_sent_to_the_collector_and_the_last_ones_at_the_end():
    with Collector() as collector:
        serving = threading.Thread(target=collector.serve_forever)
        serving.start()
        try:
            traces = open_traces(f"http://127.0.0.1:{collector.server_port}", "cortex-query")
            with traces.request("answer", CALLER):
                pass
            await traces.close()
        finally:
            collector.shutdown()
            serving.join(10)
    assert collector.paths == ["/v1/traces"]


async def test_a_collector_that_is_away_holds_nothing_up():
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound and not listening: it refuses
        traces = open_traces(f"http://127.0.0.1:{nobody.getsockname()[1]}/own/path", "cortex-query")
        with traces.request("answer", CALLER):
            pass
        async with asyncio.timeout(3 * EXPORT_S):
            await traces.close()


class Units:
    """A reader that knows where units' events stand."""

    def __init__(self, positions):
        self._positions = positions

    @asynccontextmanager
    async def snapshot(self, tenant):
        yield self

    async def units(self, ids):
        return {
            one: SimpleNamespace(known=SimpleNamespace(state=SimpleNamespace(position=self._positions[one])))
            for one in ids
            if one in self._positions
        }


async def linked(traces, exporter, *events, results):
    """Publish events, cite units, and return the traces that the answer's span links to."""
    log = make_parts().log
    places = await log.append([parse_event(one) for one in events])
    tokens = {one["data"]["id"]: place.position.token() for one, place in zip(events, places, strict=True)}
    answer = SimpleNamespace(tenant="demo", results=[SimpleNamespace(unit_id=unit_id) for unit_id in results])
    answers = AnswerTraces(traces, Units(tokens), log)
    with answers.answering(None) as span:
        await answers.cite(span, answer)
    (told,) = exporter.get_finished_spans()
    return [f"{link.context.trace_id:032x}" for link in told.links]


async def test_it_links_to_the_producers_of_what_it_cites_as_far_as_they_are_known(traces, exporter):
    events = [{**event(1), "traceparent": PRODUCER}, event(2)]
    assert await linked(traces, exporter, *events, results=["u-1", "u-2", "u-gone"]) == ["c" * 32]


async def test_without_results_there_are_no_links(traces, exporter):
    assert await linked(traces, exporter, {**event(1), "traceparent": PRODUCER}, results=[]) == []
