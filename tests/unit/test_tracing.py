"""Traces: which spans there are, whose they are, and that nothing is loaded while they are off."""

import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from shared.errors import InvalidInput
from shared.tracing import NO_TRACES, OpenTelemetry, open_traces, parent_of

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def traces(exporter) -> OpenTelemetry:
    return OpenTelemetry(SimpleSpanProcessor(exporter), "cortex-test")


def test_a_traceparent_names_trace_span_and_whether_it_is_sampled():
    parent = parent_of(SAMPLED)
    assert (f"{parent.trace_id:032x}", f"{parent.span_id:016x}", parent.sampled) == (TRACE, SPAN, True)
    assert not parent_of(UNSAMPLED).sampled


def test_a_later_version_may_say_more_and_this_one_may_not():
    assert parent_of(f"01-{TRACE}-{SPAN}-01-more") == parent_of(SAMPLED)
    assert parent_of(f"{SAMPLED}-more") is None


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        7,
        "",
        "nonsense",
        SAMPLED.upper(),
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f" {SAMPLED}",
        f"{SAMPLED}\n",
    ],
)
def test_anything_else_is_no_parent(wrong):
    assert parent_of(wrong) is None


def test_a_stage_adds_one_span_an_event_to_its_producer_s_trace(traces, exporter):
    other = f"00-{'c' * 32}-{SPAN}-01"
    with traces.stage("store", [(SAMPLED, {"cortex.event.id": "e1"}), (other, {"cortex.event.id": "e2"})]):
        pass
    found = {span.attributes["cortex.event.id"]: span for span in exporter.get_finished_spans()}
    assert {span.name for span in found.values()} == {"store"}
    assert f"{found['e1'].context.trace_id:032x}" == TRACE
    assert f"{found['e1'].parent.span_id:016x}" == SPAN
    assert f"{found['e2'].context.trace_id:032x}" == "c" * 32
    assert found["e1"].resource.attributes["service.name"] == "cortex-test"


@pytest.mark.parametrize("traceparent", [None, UNSAMPLED, "nonsense"])
def test_an_event_that_its_producer_did_not_sample_gets_no_span(traces, exporter, traceparent):
    with traces.stage("store", [(traceparent, {})]):
        pass
    assert exporter.get_finished_spans() == ()


def test_a_failure_is_told_by_its_kind_and_not_in_its_words(traces, exporter):
    with pytest.raises(ValueError, match="secret"), traces.stage("store", [(SAMPLED, {})]):
        raise ValueError("secret")
    (span,) = exporter.get_finished_spans()
    assert span.status.description == "ValueError"
    assert "secret" not in span.to_json()


def test_a_request_s_span_belongs_to_its_caller_and_links_to_what_it_cites(traces, exporter):
    other = f"00-{'c' * 32}-{'d' * 16}-01"
    with traces.request("context", SAMPLED) as span:
        assert span.links_wanted
        span.link(other)
        span.link("nonsense")
    (told,) = exporter.get_finished_spans()
    assert f"{told.context.trace_id:032x}" == TRACE
    assert [f"{link.context.trace_id:032x}" for link in told.links] == ["c" * 32]


def test_a_request_without_a_parent_begins_a_trace_and_one_that_is_not_sampled_does_not(traces, exporter):
    with traces.request("context", None):
        pass
    with traces.request("context", UNSAMPLED) as span:
        assert not span.links_wanted
    (told,) = exporter.get_finished_spans()
    assert told.parent is None


def test_without_an_endpoint_there_are_none():
    assert open_traces(None, "cortex") is NO_TRACES
    with NO_TRACES.request("context", SAMPLED) as span:
        assert not span.links_wanted


@pytest.mark.parametrize("endpoint", ["", "collector:4318", "file:///etc/passwd"])
def test_an_endpoint_that_is_no_address_is_refused(endpoint):
    with pytest.raises(InvalidInput, match="CORTEX_OTLP_ENDPOINT"):
        open_traces(endpoint, "cortex")


def test_while_tracing_is_off_neither_tracer_nor_exporter_is_loaded():
    """In both processes. (redis loads OpenTelemetry's metrics for itself wherever they are installed.)"""
    code = (
        "import sys, ingest.pipeline, query.app; "
        "sys.exit(any(name.startswith(('opentelemetry.sdk.trace', 'opentelemetry.exporter')) for name in sys.modules))"
    )
    root = Path(__file__).resolve().parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False, timeout=60).returncode == 0
