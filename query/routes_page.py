"""The page for people: files of this package, served as they are."""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated

from pydantic import Field, StringConstraints
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from query.endpoint import Call, Endpoint, Reply
from schemas.base import Strict

HTML = "text/html"
KINDS = {".css": "text/css", ".html": HTML, ".js": "text/javascript", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; "
    "require-trusted-types-for 'script'"
)
"""Nothing from elsewhere, nothing inline, and no text can become markup."""

HEADERS = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"}


Word = Annotated[str, StringConstraints(max_length=4_000)]


class PageAddress(Strict):
    """What the page keeps in its address, and reads itself: the question, its options, and the unit that is open."""

    q: Word | None = Field(default=None, description="the question; this and the rest are for the page in a browser")
    principal: Word | None = None
    as_of: Word | None = None
    format: Word | None = None
    limit: Word | None = None
    include_superseded: Word | None = None
    unit: Word | None = None


@dataclass(frozen=True)
class Asset:
    """A file of the page. ``etag``: of its content."""

    content: bytes
    kind: str
    etag: str


@cache
def assets() -> dict[str, Asset]:
    """Read the page's files, once."""
    found = {}
    for file in files("query").joinpath("page").iterdir():
        kind = KINDS.get(f".{file.name.rpartition('.')[2]}")
        if kind is not None:
            content = file.read_bytes()
            found[file.name] = Asset(content, kind, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
    return found


def page(request: Request) -> Response:
    """Give the page itself."""
    return _send(request, "index.html")


async def page_file(call: Call) -> Response:
    """Give a file of the page; the browser keeps it and asks whether it is still the same."""
    name: str = call.request.path_params["name"]
    if name not in assets() or name == "index.html":
        raise HTTPException(404, "the page has no such file")
    return _send(call.request, name)


def _send(request: Request, name: str) -> Response:
    asset = assets()[name]
    headers = {**HEADERS, "ETag": asset.etag, "Vary": "Accept"}
    if asset.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(asset.content, media_type=asset.kind, headers=headers)


PAGE = (
    Endpoint(
        "GET", "/page/{name}", page_file, "A file of the page for people",
        (
            Reply(200, "the file", {kind: None for kind in KINDS.values() if kind != HTML}),
            Reply(304, "the file is the one that you have"),
        ),
        problems=(404,),
    ),
)  # fmt: skip
