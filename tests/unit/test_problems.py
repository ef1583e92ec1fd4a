"""Every failure is told as a problem: one line a class, one shape for all."""

import inspect
import json

import anyio
import pytest
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request

from query.inputs import read_body
from query.problems import KINDS, STATUS_KINDS, problem_json, problem_of, problem_response
from schemas.events import parse_event
from shared import errors
from shared.faults import faults_of

CLASSES = [
    one
    for _, one in inspect.getmembers(errors, inspect.isclass)
    if issubclass(one, errors.CortexError) and one.__module__ == errors.__name__
]


def test_every_typed_error_has_its_own_line():
    """A class that is added to shared/errors.py needs a decision about its status."""
    assert set(KINDS) == set(CLASSES)


def test_problem_types_tell_the_kinds_apart():
    """Two kinds never share a type, and a type is a name that fits into an address."""
    names = [kind.name for kind in (*KINDS.values(), *STATUS_KINDS.values())]
    assert len(names) == len(set(names))
    assert all(name.replace("-", "").isalpha() for name in names)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_a_retriable_error_says_when_to_come_again(kind):
    """What the same request may overcome later carries Retry-After; what it cannot does not ask for it."""
    response = problem_response(kind())
    if issubclass(kind, errors.Transient):
        assert response.status_code == (429 if kind is errors.RateLimited else 503)
        assert int(response.headers["retry-after"]) >= 1
    if issubclass(kind, errors.InputError | errors.AccessError):
        assert 400 <= response.status_code < 500
        assert "retry-after" not in response.headers


CASES = [
    (
        errors.InvalidInput(faults=(errors.Fault("/data/text", "too long", "at most 3"),)),
        {
            "type": "/problems/invalid-input",
            "title": "The input has wrong fields",
            "status": 400,
            "detail": "/data/text: too long",
            "instance": "urn:cortex:request:r1",
            "errors": [{"field": "/data/text", "message": "too long", "limit": "at most 3"}],
        },
    ),
    (
        errors.TooLarge("the body has 9 bytes", limit=3),
        {
            "type": "/problems/too-large",
            "title": "The input is larger than the limit",
            "status": 413,
            "detail": "the body has 9 bytes",
            "instance": "urn:cortex:request:r1",
            "extra": {"limit": 3},
        },
    ),
    (
        errors.UnknownThing(),
        {
            "type": "/problems/not-found",
            "title": "There is no such thing, or you may not see it",
            "status": 404,
            "detail": "There is no such thing, or it may not be seen by you.",
            "instance": "urn:cortex:request:r1",
        },
    ),
    (
        HTTPException(405),
        {
            "type": "/problems/method-not-allowed",
            "title": "The address does not know this method",
            "status": 405,
            "detail": "Method Not Allowed",
            "instance": "urn:cortex:request:r1",
        },
    ),
    (
        ValueError("a secret of the database"),
        {
            "type": "/problems/internal",
            "title": "Something went wrong here",
            "status": 500,
            "detail": "an error that this release does not know; the server's log has it under the request's id",
            "instance": "urn:cortex:request:r1",
        },
    ),
]


@pytest.mark.parametrize(("error", "body"), CASES, ids=lambda value: type(value).__name__)
def test_a_problem_as_a_whole(error, body):
    """The body as it goes over the wire; unknown errors keep their words to themselves."""
    assert json.loads(problem_json(problem_of(error, "r1"))) == body


def test_a_problem_shows_the_first_hundred_faults_and_counts_the_rest():
    """A batch of wrong events does not become a megabyte of faults."""
    faults = tuple(errors.Fault(f"/{index}", "wrong") for index in range(250))
    problem = problem_of(errors.InvalidInput(faults=faults))
    assert len(problem.errors) == 100
    assert problem.detail == "/0: wrong (and 249 more)"


def event(**data: object):
    unit = {"id": "u", "text": "x", "type": "decision", "scope": {"level": "team", "entity_id": "a"}} | data
    return {"specversion": "1.0", "id": "1", "source": "s", "tenant": "demo", "type": "unit.asserted", "data": unit}


FAULTS = [
    (event(text=""), ("/data/text", "the text is empty or only white space", None)),
    (event(text="x" * 32_001), ("/data/text", "String should have at most 32000 characters", "at most 32000 long")),
    (event(zzz=1), ("/data/zzz", "unknown field", None)),
    (event(claims=[{"subject": "a", "predicate": "b"}]), ("/data/claims/0/object", "required, but not there", None)),
    (event(metadata={"a/b~c": 1}), ("/data/metadata/a~1b~0c", None, None)),
    (event(confidence=2), ("/data/confidence", "Input should be less than or equal to 1", "at most 1")),
    (event() | {"type": "unit.invented"}, ("/type", "not a kind of event that is known", None)),
    ({k: v for k, v in event().items() if k != "type"}, ("/type", "not a kind of event that is known", None)),
    ({k: v for k, v in event().items() if k != "tenant"}, ("/tenant", "required, but not there", None)),
    (event(valid_until="never"), ("/data/valid_until", None, None)),
]


@pytest.mark.parametrize(("value", "expected"), FAULTS, ids=range(len(FAULTS)))
def test_a_fault_points_to_the_field_and_names_the_limit(value, expected):
    """Pointers lead into what was sent: names of union members, which the sender never wrote, do not stand in them."""
    with pytest.raises(ValidationError) as caught:
        parse_event(value)
    faults = faults_of(caught.value, value)
    pointer, message, limit = expected
    fault = next(fault for fault in faults if message in (None, fault.message))
    assert {fault.field for fault in faults} == {pointer}
    assert limit in (None, fault.limit)


def test_faults_of_a_batch_begin_with_the_place_of_the_event():
    """The base is the event's own pointer."""

    class Model(BaseModel):
        text: str

    with pytest.raises(ValidationError) as caught:
        Model.model_validate({"text": 1})
    assert [fault.field for fault in faults_of(caught.value, {"text": 1}, "/3/data")] == ["/3/data/text"]


@pytest.mark.anyio
async def test_a_body_that_does_not_come_is_not_waited_for():
    """408, within a bound."""

    async def receive():
        await anyio.sleep_forever()

    request = Request({"type": "http", "headers": []}, receive)
    with anyio.fail_after(10), pytest.raises(HTTPException) as caught:
        await read_body(request, 100, within_s=0.02)
    assert problem_of(caught.value).type == "/problems/request-timeout"
