"""OpenAPI 3.1, made from the table of routes, the models and the limits: nothing in it is written twice."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from query.access import TENANT_HEADER
from query.endpoint import Body, Endpoint, NoParameters, Reply
from query.inputs import QUERY_FIELDS, is_repeated, parameters_of
from query.problems import KINDS, PROBLEM_TYPE, STATUS_KINDS, Kind
from schemas import limits
from schemas.problems import Problem
from schemas.times import Moment
from schemas.units import TenantId

REF = "#/components/schemas/{model}"
ALWAYS = (500,)
GUARDED = (401, 403)
PATH_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
MOMENT = REF.format(model="Moment")  # in an address a moment is a text, whatever its form
TENANT = {
    "name": TENANT_HEADER,
    "in": "header",
    "required": False,
    "description": "the tenant; a token's caller may only repeat its own",
    "schema": TypeAdapter(TenantId).json_schema(),
}
SIGNATURE = {
    "type": "apiKey",
    "in": "header",
    "name": "webhook-signature",
    "description": "Standard Webhooks: with the headers webhook-id and webhook-timestamp",
}
RETRY_AFTER = {"description": "seconds to wait", "schema": {"type": "integer"}}


def build_openapi(endpoints: Sequence[Endpoint], version: str, *, trusted: bool) -> dict[str, Any]:
    """Describe the routes. ``trusted``: no tokens are configured, so no route asks for one."""
    schemas = _Schemas(endpoints)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(plain_path(endpoint.path), {})[endpoint.method.lower()] = _operation(
            endpoint, schemas, trusted=trusted
        )
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Cortex",
            "version": version,
            "description": "A live knowledge service: events go in, cited answers come out.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas.definitions,
            "responses": {str(status): _problem(kinds) for status, kinds in sorted(_kinds_by_status().items())},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}, "webhook": SIGNATURE},
        },
        "x-limits": {name.lower(): value for name, value in sorted(vars(limits).items()) if name.isupper()}
        | {"query_parameters": QUERY_FIELDS},
    }


def plain_path(path: str) -> str:
    """Write a route's path as OpenAPI does: without the kinds of its parameters."""
    return PATH_PARAMETER.sub(r"{\1}", path)


class _Schemas:
    """JSON Schemas of everything that the routes name, each definition once."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        inputs: list[tuple[Any, JsonSchemaMode]] = [
            (kind, "validation") for one in endpoints if one.body for kind in one.body.content.values()
        ]
        outputs: list[tuple[Any, JsonSchemaMode]] = [
            (kind, "serialization") for one in endpoints for reply in one.replies for kind in reply.content.values()
        ]
        wanted = {
            _key(kind, mode): (kind, mode) for kind, mode in [*inputs, *outputs, (Problem, "serialization")] if kind
        }
        adapters = [(key, mode, TypeAdapter(kind)) for key, (kind, mode) in wanted.items()]
        made, rest = TypeAdapter.json_schemas(adapters, ref_template=REF)
        self._made = {key: schema for (key, _), schema in made.items()}
        self.definitions: dict[str, Any] = rest.get("$defs", {})

    def of(self, kind: Any, mode: JsonSchemaMode) -> dict[str, Any]:
        """Return the schema of a model, or of anything where none is named."""
        return self._made[_key(kind, mode)] if kind is not None else {}


def _key(kind: Any, mode: JsonSchemaMode) -> str:
    return f"{mode}:{kind!r}"


def _operation(endpoint: Endpoint, schemas: _Schemas, *, trusted: bool) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.handler.__name__,
        "summary": endpoint.summary,
        "description": endpoint.handler.__doc__,
        "tags": [endpoint.tag],
        "parameters": [
            *_path_parameters(endpoint.path),
            *_query_parameters(endpoint),
            *([TENANT] if endpoint.right is not None else []),
        ],
        "responses": _responses(endpoint, schemas, trusted=trusted),
    }
    if endpoint.body is not None:
        operation["requestBody"] = _body(endpoint.body, schemas)
    if endpoint.signed:
        operation["security"] = [{"webhook": []}]
    if endpoint.right is not None and not trusted:
        operation["security"] = [{"bearer": []}]
        operation["x-right"] = endpoint.right.value
    return operation


def _path_parameters(path: str) -> list[dict[str, Any]]:
    described = "an id; slashes stand as they are or percent-encoded"
    return [
        {"name": name, "in": "path", "required": True, "description": described, "schema": {"type": "string"}}
        for name in PATH_PARAMETER.findall(path)
    ]


def _query_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    if endpoint.parameters is NoParameters:
        return []
    whole = endpoint.parameters.model_json_schema(ref_template=REF)
    parameters = []
    for name, field in parameters_of(endpoint.parameters).items():
        schema = dict(whole["properties"][name])
        schema.pop("title", None)
        parameter: dict[str, Any] = {"name": name, "in": "query", "required": field.is_required()}
        if description := schema.pop("description", None):
            parameter["description"] = description
        if is_repeated(field):
            parameter |= {"style": "form", "explode": True}
        parameters.append(parameter | {"schema": _inlined(schema, whole.get("$defs", {}))})
    return parameters


def _inlined(schema: Any, definitions: dict[str, Any]) -> Any:
    """Put small definitions (enumerations, moments) where they are used: parameters need no components."""
    if isinstance(schema, dict):
        if (reference := schema.get("$ref")) is not None:
            if reference == MOMENT:
                return {"type": "string", "description": Moment.__doc__}
            return _inlined(definitions[reference.rpartition("/")[2]], definitions)
        return {key: _inlined(value, definitions) for key, value in schema.items()}
    if isinstance(schema, list):
        return [_inlined(value, definitions) for value in schema]
    return schema


def _body(body: Body, schemas: _Schemas) -> dict[str, Any]:
    return {
        "required": True,
        "description": f"at most {body.limit_bytes} bytes",
        "x-limit-bytes": body.limit_bytes,
        "content": {kind: {"schema": schemas.of(model, "validation")} for kind, model in body.content.items()},
    }


def _responses(endpoint: Endpoint, schemas: _Schemas, *, trusted: bool) -> dict[str, Any]:
    guarded = GUARDED if endpoint.right is not None and not trusted else (403, 421) if trusted else ()
    takes = (400,)
    statuses = sorted({*endpoint.problems, *guarded, *takes, *ALWAYS})
    responses: dict[str, Any] = {str(status): {"$ref": f"#/components/responses/{status}"} for status in statuses}
    return responses | {str(reply.status): _reply(reply, schemas) for reply in endpoint.replies}


def _reply(reply: Reply, schemas: _Schemas) -> dict[str, Any]:
    content = {kind: {"schema": schemas.of(model, "serialization")} for kind, model in reply.content.items()}
    return {"description": reply.description, "content": content}


def _kinds_by_status() -> dict[int, list[Kind]]:
    kinds: dict[int, list[Kind]] = {}
    for kind in (*KINDS.values(), *STATUS_KINDS.values()):
        kinds.setdefault(kind.status, []).append(kind)
    return kinds


def _problem(kinds: list[Kind]) -> dict[str, Any]:
    words = "; ".join(f"`{kind.type}`: {kind.title}" for kind in kinds)
    headers = {"Retry-After": RETRY_AFTER} if any(kind.retry_after_s is not None for kind in kinds) else {}
    response: dict[str, Any] = {
        "description": words,
        "content": {PROBLEM_TYPE: {"schema": {"$ref": REF.format(model="Problem")}}},
    }
    return response | ({"headers": headers} if headers else {})
