"""CloudEvents 1.0 in binary content mode: attributes in headers, data in the body; read into the structured form.

HTTP (its protocol binding, 3.1): headers ``ce-<name>``; a value may be quoted and is percent-encoded UTF-8. Kafka (its
binding, 3.2): headers ``ce_<name>``, UTF-8 as it is. In both ``content-type`` is the attribute ``datacontenttype``.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from shared.errors import Fault, InvalidInput

HTTP_PREFIX: Final = "ce-"
KAFKA_PREFIX: Final = "ce_"
CONTENT_TYPE: Final = "content-type"
STRUCTURED: Final = "application/cloudevents"
"""Media types that begin so carry the whole event in the body, whatever the headers say."""

_ESCAPE: Final = re.compile(rb"%([0-9A-Fa-f]{2})")
_QUOTED: Final = re.compile(r'^"(?:[^"\\]|\\.)*"$', re.DOTALL)


def is_binary(names: Iterable[str], content_type: str | None, prefix: str = HTTP_PREFIX) -> bool:
    """Tell whether a message is an event in binary mode: it names the specification's version in its headers."""
    if (content_type or "").strip().lower().startswith(STRUCTURED):
        return False
    return f"{prefix}specversion" in {name.lower() for name in names}


def event_of_http(headers: Iterable[tuple[bytes, bytes]], content_type: str | None, body: bytes) -> dict[str, Any]:
    """Return the event's structured form. Raises InvalidInput that names the header, or the data."""
    attributes: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name = raw_name.decode("latin-1").lower()
        if name.startswith(HTTP_PREFIX):
            _add(attributes, name, HTTP_PREFIX, decode_header(name, raw_value))
    return _put_together(attributes, content_type, body)


def event_of_kafka(headers: Iterable[tuple[str, bytes]], body: bytes | None) -> dict[str, Any]:
    """Return the event's structured form. Raises InvalidInput that names the header, or the data."""
    attributes: dict[str, str] = {}
    content_type: str | None = None
    for name, value in headers:
        if name.lower() == CONTENT_TYPE:
            content_type = _utf8(name, value)
        elif name.startswith(KAFKA_PREFIX):
            _add(attributes, name, KAFKA_PREFIX, _utf8(name, value))
    return _put_together(attributes, content_type, body or b"")


def kafka_content_type(headers: Iterable[tuple[str, bytes]]) -> str | None:
    """Return the content type that a record names, as far as it can be read."""
    return next((value.decode("utf-8", "replace") for name, value in headers if name.lower() == CONTENT_TYPE), None)


def decode_header(name: str, value: bytes) -> str:
    """Read an HTTP header's value: quotes removed, then percent-decoded once; what comes out has to be UTF-8.

    A lone ``%`` stays as it is, as the specification wants of a lenient reader. Raises InvalidInput.
    """
    text = value.decode("latin-1").strip()
    if _QUOTED.match(text):
        text = re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
    return _utf8(name, _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), text.encode("latin-1")))


def _add(attributes: dict[str, str], header: str, prefix: str, value: str) -> None:
    name = header.removeprefix(prefix)
    if name in attributes:
        raise InvalidInput(faults=(Fault(f"/{name}", f"the header {header} is given more than once"),))
    if name in {"datacontenttype", "data"}:
        words = (
            "in binary mode the header Content-Type says this" if name == "datacontenttype" else "the body is the data"
        )
        raise InvalidInput(faults=(Fault(f"/{name}", words),))
    attributes[name] = value


def _put_together(attributes: Mapping[str, str], content_type: str | None, body: bytes) -> dict[str, Any]:
    kind = (content_type or "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        fault = Fault("/datacontenttype", f"the data is {kind}", limit="application/json")
        raise InvalidInput(faults=(fault,))
    event: dict[str, Any] = dict(attributes)
    if not body.strip():
        return event  # without data: what reads the event says that it is missing
    try:
        event["data"] = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        fault = Fault("/data", f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}")
        raise InvalidInput(faults=(fault,)) from error
    return event


def _utf8(name: str, value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        fault = Fault(f"/{name[3:]}", f"the header {name} is not UTF-8", limit="percent-encoded UTF-8 over HTTP")
        raise InvalidInput(faults=(fault,)) from error
