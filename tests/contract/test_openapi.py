"""The description of the API: well formed, complete, and true to the routes and limits."""

import json
import re

import pytest
from jsonschema import Draft202012Validator

from query.app import ENDPOINTS, create_app
from query.inputs import parameters_of
from query.openapi import plain_path
from query.problems import KINDS, STATUS_KINDS
from schemas import limits
from schemas.events import EventType
from shared.settings import Settings


@pytest.fixture(scope="module")
def app():
    return create_app(Settings())


@pytest.fixture(scope="module")
def document(app):
    return json.loads(json.dumps(app.state.openapi()))


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_every_route_of_the_application_is_described_and_nothing_else(app, document):
    """Routes and description come from one table; this checks that nothing goes past it."""
    served = {
        (plain_path(route.path), method.lower()) for route in app.routes for method in route.methods if method != "HEAD"
    }
    assert served == {(path, method) for path, method, _ in operations(document)}


def test_the_document_has_the_shape_of_openapi_3_1(document):
    """The parts that every tool reads."""
    assert document["openapi"].startswith("3.1.")
    assert set(document["info"]) >= {"title", "version", "license"}
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(names) == len(set(names))
    for path, _, operation in operations(document):
        assert operation["summary"]
        assert operation["description"]
        in_path = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
        assert in_path == set(re.findall(r"\{(\w+)\}", path))
        assert all(one["required"] for one in operation["parameters"] if one["in"] == "path")
        for status, response in operation["responses"].items():
            assert re.fullmatch(r"[1-5]\d\d", status)
            assert "$ref" in response or response["description"]


def test_every_reference_leads_somewhere(document):
    """No dangling $ref."""
    references = set(re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(document)))
    assert references
    for reference in references:
        place = document
        for part in reference.split("/"):
            assert part in place, reference
            place = place[part]


def test_every_schema_is_a_json_schema(document):
    """Of the 2020-12 dialect, which OpenAPI 3.1 uses."""
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    for _, _, operation in operations(document):
        for parameter in operation["parameters"]:
            Draft202012Validator.check_schema(parameter["schema"])


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda one: f"{one.method} {one.path}")
def test_every_parameter_of_a_route_is_described(document, endpoint):
    """By the name that the address uses, with whether it is needed."""
    operation = document["paths"][plain_path(endpoint.path)][endpoint.method.lower()]
    described = {one["name"]: one["required"] for one in operation["parameters"] if one["in"] == "query"}
    assert described == {name: field.is_required() for name, field in parameters_of(endpoint.parameters).items()}


def test_limits_are_stated(document):
    """Those of bodies beside the body, all of them in one place."""
    assert document["x-limits"]["batch_events"] == limits.BATCH_EVENTS
    assert {name.lower() for name in vars(limits) if name.isupper()} <= set(document["x-limits"])
    for _, _, operation in operations(document):
        if "requestBody" in operation:
            assert str(operation["requestBody"]["x-limit-bytes"]) in operation["requestBody"]["description"]
            assert "413" in operation["responses"]
    question = document["components"]["schemas"]["Question"]["properties"]["q"]
    assert question["maxLength"] == limits.QUESTION_CHARS


def test_every_problem_is_described(document):
    """By the status under which it comes."""
    for kind in (*KINDS.values(), *STATUS_KINDS.values()):
        assert kind.type in document["components"]["responses"][str(kind.status)]["description"]


def test_every_kind_of_event_is_described(document):
    """Publishers find the schema of each."""
    body = json.dumps(document["paths"]["/v1/events"]["post"]["requestBody"])
    schemas = json.dumps(document["components"]["schemas"])
    assert all(kind.value in body + schemas for kind in EventType)


def test_a_guarded_service_says_which_right_a_route_needs(tmp_path):
    """With tokens every route under /v1 asks for one; without tokens none does."""
    tokens = tmp_path / "tokens"
    tokens.write_text(json.dumps({"sha256": "0" * 64, "tenant": "acme", "principal": "*", "rights": ["ask"]}))
    guarded = create_app(Settings(tokens_file=tokens)).state.openapi()
    for path, _, operation in operations(guarded):
        if path.startswith("/v1/webhooks/"):
            assert operation["security"] == [{"webhook": []}]
        elif path.startswith("/v1/"):
            assert operation["security"] == [{"bearer": []}]
            assert operation["x-right"] in {"ask", "publish", "admin"}
            assert {"401", "403"} <= set(operation["responses"])
    open_document = create_app(Settings()).state.openapi()
    asking = {path for path, _, operation in operations(open_document) if "security" in operation}
    assert asking == {"/v1/webhooks/reindex"}
