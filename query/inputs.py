"""Reading what came in: bounded bodies, strict parameters, and faults that point to the field."""

import re
from collections.abc import Iterable
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin
from urllib.parse import parse_qsl

import anyio
import orjson
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from starlette.exceptions import HTTPException
from starlette.requests import Request

from schemas.times import Moment
from shared.errors import Fault, InvalidInput, TooLarge
from shared.faults import faults_of, nesting_fault, not_json

ASK_BYTES = 64 * 1024  # a question of 4,000 characters in any script, with every option
BODY_S = 30.0  # 4 MB over a slow line; a sender that needs longer sends smaller batches
QUERY_FIELDS = 200  # parameters in one address: 64 scopes, every type and level, and room
REPEATED = (tuple, list, set, frozenset)
DIGITS = re.compile(r"-?\d+$")
LOST_PLUS = re.compile(r"(.*\d\d:\d\d(?::\d\d(?:\.\d+)?)?) (\d\d:?\d\d)$")
BASIC_DATE_DIGITS = 8  # 20260301: read as JSON's string reads it, a basic ISO date
Model = TypeVar("Model", bound=BaseModel)


async def read_body(request: Request, limit: int, within_s: float = BODY_S) -> bytes:
    """Read a body of at most ``limit`` bytes; raises TooLarge without reading more than that, 408 when it does not come."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise TooLarge(f"the body has {int(declared)} bytes, at most {limit} are taken", limit=limit)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(415, "the body is encoded: send it as it is")
    chunks: list[bytes] = []
    size = 0
    try:
        with anyio.fail_after(within_s):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise TooLarge(f"the body has more than {limit} bytes", limit=limit)
                chunks.append(chunk)
    except TimeoutError as error:
        raise HTTPException(408, f"the body did not come within {within_s:g} s") from error
    return b"".join(chunks)


def media_type(request: Request) -> str:
    """Return the body's media type, lower case, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def parse_json(body: bytes) -> Any:
    """Read JSON. NaN, lone surrogates, invalid UTF-8 and deep nesting are refused (InvalidInput)."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(faults=(not_json(error, body),)) from error


def validate(model: type[Model], value: Any) -> Model:
    """Read a value as a model; raises InvalidInput whose faults carry JSON Pointers."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise InvalidInput(faults=faults_of(error, value)) from error
    except RecursionError as error:
        raise InvalidInput(faults=(nesting_fault(""),)) from error


def query_parameters(request: Request) -> list[tuple[str, str]]:
    """Return the address's parameters in order, decoded strictly: bytes that are no UTF-8 are a fault."""
    try:
        return parse_qsl(
            request.scope["query_string"].decode("ascii"),
            keep_blank_values=True,
            max_num_fields=QUERY_FIELDS,
            errors="strict",
        )
    except ValueError as error:
        fault = Fault("", "the address's parameters cannot be read", limit=f"UTF-8, at most {QUERY_FIELDS} parameters")
        raise InvalidInput(faults=(fault,)) from error


def read_parameters(model: type[Model], pairs: Iterable[tuple[str, str]]) -> Model:
    """Read parameters as a model: repeated ones fill a sequence, unknown ones and other repetitions are faults."""
    values: dict[str, Any] = {}
    faults: list[Fault] = []
    fields = parameters_of(model)
    for name, text in pairs:
        field = fields.get(name)
        if field is None:
            known = ", ".join(sorted(fields)) or "none"
            faults.append(Fault(name, "unknown parameter", limit=f"known here: {known}"))
        elif is_repeated(field):
            values.setdefault(name, []).append(text)
        elif name in values:
            faults.append(Fault(name, "given more than once"))
        else:
            values[name] = _moment_text(name, text) if mentions(field.annotation, Moment) else text
    if faults:
        raise InvalidInput(faults=tuple(faults))
    try:
        return model.model_validate(values)
    except ValidationError as error:
        named = tuple(Fault(f.field.lstrip("/"), f.message, f.limit) for f in faults_of(error, values))
        raise InvalidInput(faults=named) from error


def parameters_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return a model's fields by the name that an address uses for them."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def is_repeated(field: FieldInfo) -> bool:
    """Whether a parameter may be given several times."""
    return any(mentions(field.annotation, kind) for kind in REPEATED)


def mentions(annotation: Any, wanted: type) -> bool:
    """Whether a type is ``wanted``, or a union or annotation that contains it."""
    origin = get_origin(annotation)
    if annotation is wanted or origin is wanted:
        return True
    if origin in (Union, UnionType, Annotated):
        return any(mentions(part, wanted) for part in get_args(annotation))
    return False


def _moment_text(name: str, text: str) -> Any:
    """Give a moment in an address the forms it has in JSON: milliseconds, and an object with a zone.

    A ``+`` that was not percent-encoded arrives as a space; before an offset nothing else can be meant.
    """
    if DIGITS.match(text) and len(text) != BASIC_DATE_DIGITS:
        return int(text[:20])
    if text.startswith("{"):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise InvalidInput(faults=(Fault(name, f"not JSON: {error.msg}"),)) from error
    lost = LOST_PLUS.match(text)
    return f"{lost[1]}+{lost[2]}" if lost else text
