"""The page's files: only its own, kept by the browser, and nothing in them that comes from elsewhere."""

import re

import pytest

from query.routes_page import assets
from shared.settings import Settings
from tests.integration.http_service import in_process, make_parts

pytestmark = [pytest.mark.integration, pytest.mark.anyio]


@pytest.fixture
async def client():
    async with in_process(Settings(), make_parts()) as opened:
        yield opened


async def test_the_page_allows_nothing_from_elsewhere_and_no_markup_from_text(client):
    page = await client.get("/", headers={"accept": "text/html"})
    policy = page.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy


async def test_every_file_that_the_page_names_is_there(client):
    page = (await client.get("/", headers={"accept": "text/html"})).text
    modules = " ".join(asset.content.decode() for name, asset in assets().items() if name.endswith(".js"))
    named = set(re.findall(r'/page/([\w.]+)"', page)) | set(re.findall(r'from "\./([\w.]+)"', modules))
    assert named == set(assets()) - {"index.html"}
    for name in named:
        answer = await client.get(f"/page/{name}")
        assert (answer.status_code, answer.content) == (200, assets()[name].content)


async def test_what_the_browser_has_is_not_sent_again(client):
    first = await client.get("/page/page.css")
    again = await client.get("/page/page.css", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert first.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("name", ["nothing.js", "..%2Fapp.py", "index.html", "__init__.py"])
async def test_no_other_file_is_given_away(client, name):
    assert (await client.get(f"/page/{name}")).status_code == 404


def test_no_file_names_another_host_or_writes_markup():
    """An XML namespace is a name, not an address."""
    for name, asset in assets().items():
        text = asset.content.decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//[a-z]+\.[a-z]", text), name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            name
        )
