"""Exchanges as the agents' hooks hand them over."""

import json

import pytest

from compose.hooks.exchange import last_exchange, read_exchange
from compose.hooks.learn import events_of
from compose.hooks.worth import Finding
from schemas.events import parse_event


def line(role, content, **fields):
    return json.dumps({"type": role, "message": {"role": role, "content": content}, **fields})


TRANSCRIPT = [
    line("user", "an older question"),
    line("assistant", [{"type": "text", "text": "An older answer."}]),
    line("user", "<command-name>/compact</command-name>"),
    "not json",
    line("user", [{"type": "text", "text": "why does the import fail?"}], timestamp="2026-11-30T10:00:00.000Z"),
    line("assistant", [{"type": "tool_use", "name": "Bash", "input": {"command": "make"}}]),
    line("user", [{"type": "tool_result", "content": [{"type": "text", "text": "ImportError: no foo"}]}]),
    line("user", "a hint of the agent itself", isMeta=True),
    line("assistant", [{"type": "text", "text": "Half of it."}]),
    line("assistant", [{"type": "text", "text": "The rest."}], timestamp="2026-11-30T10:01:00.000Z"),
    line("assistant", "a helper's words", isSidechain=True),
    "",
]


def test_the_last_exchange_of_a_transcript():
    told = last_exchange(TRANSCRIPT)
    assert told.prompt == "why does the import fail?"
    assert told.response == "Half of it.\n\nThe rest."
    assert told.outputs == ("ImportError: no foo",)
    assert told.at == "2026-11-30T10:01:00.000Z"


def test_a_stop_hook_names_its_transcript(tmp_path):
    path = tmp_path / "transcript.jsonl"
    path.write_text("\n".join(TRANSCRIPT))
    given = {"hook_event_name": "Stop", "session_id": "s1", "transcript_path": str(path), "cwd": "/home/ana/shop/"}
    told = read_exchange(json.dumps(given))
    assert (told.agent, told.session, told.project) == ("claude-code", "s1", "shop")
    assert told.response.endswith("The rest.")


@pytest.mark.parametrize(
    ("given", "agent", "prompt"),
    [
        ({"hook_event_name": "AfterAgent", "prompt": "p", "prompt_response": "r"}, "gemini", "p"),
        (
            {"type": "agent-turn-complete", "input-messages": ["a", "b"], "last-assistant-message": "r"},
            "codex",
            "a\nb",
        ),
        ({"agent": "my-bot", "prompt": "p", "response": "r"}, "my-bot", "p"),
    ],
)
def test_other_agents_hand_over_the_exchange_itself(given, agent, prompt):
    told = read_exchange(json.dumps(given))
    assert (told.agent, told.prompt, told.response) == (agent, prompt, "r")


@pytest.mark.parametrize("given", ["[]", "{}", '{"prompt": "p"}', '{"prompt": "p", "response": "  "}'])
def test_nothing_answered_is_no_exchange(given):
    assert read_exchange(given) is None


def test_codex_records_are_read_from_a_transcript():
    records = [
        {"type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"text": "why?"}]}},
        {"type": "response_item", "payload": {"type": "message", "role": "assistant", "content": [{"text": "So."}]}},
    ]
    told = last_exchange(json.dumps(record) for record in records)
    assert (told.prompt, told.response) == ("why?", "So.")


def exchange(**fields):
    return read_exchange(json.dumps({"prompt": "p", "response": "r", "session_id": "s/1 x", "agent": "a b", **fields}))


def test_learnt_events_are_valid_personal_and_the_same_for_the_same_exchange():
    found = [Finding("decision", "We decided to use tabs."), Finding("error_fix", "Error: x\nFix: y")]
    events = events_of(found, exchange(cwd="C:\\work\\shop"), tenant="demo", principal="person-ana", scope=None)
    again = events_of(found, exchange(cwd="elsewhere"), tenant="demo", principal="person-ana", scope=None)
    parsed = [parse_event(event) for event in events]
    assert [event["id"] for event in events] == [event["id"] for event in again]
    assert len({event.id for event in parsed}) == 2
    assert {event.data.scope.key for event in parsed} == {"personal/person-ana"}
    assert parsed[0].data.origin.creator_entity_id == "person-ana"
    assert parsed[0].data.agent == "a b"
    assert parsed[0].data.session_id == "s-1-x"


def test_a_sentence_of_a_later_session_is_the_same_unit_anew():
    found = [Finding("decision", "We decided to use tabs.")]
    (first,) = events_of(found, exchange(), tenant="demo", principal="person-ana", scope=None)
    (later,) = events_of(found, exchange(session_id="s2"), tenant="demo", principal="person-ana", scope=None)
    assert first["data"]["id"] == later["data"]["id"]
    assert first["id"] != later["id"]


@pytest.mark.parametrize(("scope", "key"), [("team/team-a", "team/team-a"), ("everybody", "personal/person-ana")])
def test_a_scope_is_taken_as_given_or_stays_personal(scope, key):
    (event,) = events_of([Finding("decision", "x")], exchange(), tenant="demo", principal="person-ana", scope=scope)
    assert parse_event(event).data.scope.key == key
