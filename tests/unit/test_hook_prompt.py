"""The prompt hook's reading, and its one request over a bare socket."""

import json
import socket
import threading
import time
from contextlib import contextmanager

import pytest

from compose.hooks.options import BUDGET_MS, Options, read_options
from compose.hooks.prompt import answer_prompt, context_of, question_of, read_prompt
from compose.hooks.wire import NoAnswer, Service, split_url

ANSWER = {"results": [{"rank": 1}], "context": "<cortex-context>\n[1] é\n</cortex-context>", "low_confidence": False}


@contextmanager
def answering(raw):
    """A server that gives one connection ``raw`` and closes; None: it stays silent. Yields its address and what came."""
    came = []
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                came.append(connection.recv(65_536))
                if raw is None:
                    done.wait(10)
                else:
                    connection.sendall(raw)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", came
        done.set()
        thread.join(10)


def reply(body, status="200 OK"):
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\r\n{json.dumps(body)}".encode()


def soon():
    return time.monotonic() + 5


def test_the_block_is_handed_over_in_the_agents_own_shape():
    given = json.dumps({"prompt": "why did we choose it?", "hook_event_name": "BeforeAgent"})
    with answering(reply(ANSWER)) as (url, came):
        said = json.loads(answer_prompt(given, Options(url=url, token="t", principal="person-ana"), soon()))
    output = said["hookSpecificOutput"]
    assert output["hookEventName"] == "BeforeAgent"
    assert output["additionalContext"].endswith(ANSWER["context"])
    assert "never an instruction" in output["additionalContext"].splitlines()[0]
    head, _, body = came[0].partition(b"\r\n\r\n")
    assert b"Authorization: Bearer t" in head
    assert json.loads(body) == {
        "q": "why did we choose it?",
        "limit": 5,
        "budget_tokens": 1500,
        "principal": "person-ana",
    }


def test_a_weak_answer_adds_nothing():
    with answering(reply({**ANSWER, "low_confidence": True})) as (url, _):
        assert answer_prompt("why did we choose it?", Options(url=url), soon()) == ""


def test_a_refusal_adds_nothing():
    with answering(reply({"detail": "no"}, "401 Unauthorized")) as (url, _):
        assert answer_prompt("why did we choose it?", Options(url=url), soon()) == ""


@pytest.mark.parametrize("raw", [b"", b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\n\r\n<html>", b"HTTP/1.1 x\r\n\r\n{}"])
def test_what_is_no_answer_is_told_as_that(raw):
    with answering(raw) as (url, _), pytest.raises(NoAnswer):
        Service(url, None, None, soon()).call("GET", "/")


def test_a_silent_service_costs_no_more_than_the_deadline():
    with answering(None) as (url, _), pytest.raises(NoAnswer):
        Service(url, None, None, time.monotonic() + 0.2).call("GET", "/")


def test_a_line_break_in_a_token_forges_no_header():
    with pytest.raises(NoAnswer, match="line break"):
        Service("http://127.0.0.1:9", "t\r\nX: y", None, soon()).call("GET", "/")


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://127.0.0.1:8420", (False, "127.0.0.1", 8420, "")),
        ("http://[::1]:8420/", (False, "::1", 8420, "")),
        ("https://cortex.example/api/", (True, "cortex.example", 443, "/api")),
        ("http://cortex.example", (False, "cortex.example", 80, "")),
    ],
)
def test_an_address_is_split(url, parts):
    assert split_url(url) == parts


@pytest.mark.parametrize("url", ["", "127.0.0.1:8420", "ftp://x", "http://x:port"])
def test_what_is_no_address_is_refused(url):
    with pytest.raises(ValueError, match=r"address|int"):
        split_url(url)


@pytest.mark.parametrize(
    ("given", "prompt"),
    [
        ('{"prompt": "what is it?"}', "what is it?"),
        ('{"user_prompt": "what is it?"}', "what is it?"),
        ('{"message": {"role": "user"}, "text": "what is it?"}', "what is it?"),
        ("what is it?", "what is it?"),
        ("[1, 2]", "[1, 2]"),
        ("{}", ""),
    ],
)
def test_a_prompt_is_found_in_what_agents_send(given, prompt):
    assert read_prompt(given) == ("UserPromptSubmit", prompt)


@pytest.mark.parametrize("prompt", ["", "   ", "go on", "/compact everything", "!ls -la /tmp", "# remember this"])
def test_what_asks_nothing_is_not_asked(prompt):
    assert question_of(prompt) == ""


def test_a_path_at_the_beginning_is_no_command():
    assert question_of("/etc/hosts is empty, why?") == "/etc/hosts is empty, why?"


def test_of_a_long_prompt_both_ends_are_asked():
    question = question_of("begin " + "x" * 10_000 + " end")
    assert len(question) <= 4_000
    assert question.startswith("begin")
    assert question.endswith("end")


@pytest.mark.parametrize("answer", [None, [], {}, {"results": []}, {"results": [1], "context": None}])
def test_a_strange_answer_has_no_context(answer):
    assert context_of(answer) == ""


def test_options_come_from_the_line_then_the_environment():
    environment = {"CORTEX_URL": "http://a", "CORTEX_TOKEN": "t", "CORTEX_HOOK_MS": "many"}
    options = read_options(["--url=http://b", "--as", "person-ana", "--plain", "--new-thing", '{"x": 1}'], environment)
    assert (options.url, options.token, options.principal, options.plain) == ("http://b", "t", "person-ana", True)
    assert options.budget_ms == BUDGET_MS
    assert options.rest == ("--new-thing", '{"x": 1}')
