"""Agents of a Cortex that asks for tokens: each is who its own token says, also behind a shared MCP server."""

import hashlib
import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager

import httpx
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.e2e.product import Product, free_ports, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300), pytest.mark.anyio]
ANA, BEN = "the-token-of-ana", "the-token-of-ben"


def entry(token, principal):
    rights = ["ask", "publish"]
    digest = hashlib.sha256(token.encode()).hexdigest()
    return json.dumps({"sha256": digest, "tenant": "acme", "principal": principal, "rights": rights})


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    tokens = folder / "tokens.jsonl"
    tokens.write_text(f"{entry(ANA, 'person-ana')}\n{entry(BEN, 'person-ben')}\n")
    product = Product(folder / "data", env={"CORTEX_TOKENS_FILE": str(tokens)})
    try:
        product.start()
        yield product
    finally:
        product.close()


def environment(product, token=None):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("CORTEX_")}
    return {**kept, "CORTEX_URL": product.url, **({"CORTEX_TOKEN": token} if token else {})}


@contextmanager
def shared_server(product, host="127.0.0.1"):
    port = free_ports()
    command = [sys.executable, "-m", "compose", "mcp", "--http", "--host", host, "--port", str(port)]
    with subprocess.Popen(command, env=environment(product), stderr=subprocess.DEVNULL) as process:
        try:
            until(lambda: _listens(port), 60, "the MCP server listens")
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()


def _listens(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/", timeout=2, trust_env=False).status_code > 0
    except httpx.TransportError:
        return False


@asynccontextmanager
async def agent(address, token=None):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http,
        Client(streamable_http_client(address, http_client=http), read_timeout_seconds=60) as client,
    ):
        yield client


async def test_behind_one_server_each_agent_is_its_own_token(product):
    told = {"text": "Ana keeps the spare key of the Alca in drawer 9.", "type": "context"}
    with shared_server(product) as address:
        async with agent(address, ANA) as ana:
            published = (await ana.call_tool("publish", told)).structured_content
            assert (published["scope"], published["state"]) == ("personal/person-ana", "stored")
            found = await ana.call_tool("search", {"query": "spare key of the Alca"})
            assert found.structured_content["hits"][0]["unit_id"] == published["unit_id"]
        async with agent(address, BEN) as ben:
            found = await ben.call_tool("search", {"query": "spare key of the Alca"})
            assert found.structured_content["hits"] == []
        async with agent(address) as nobody:
            refused = await nobody.call_tool("search", {"query": "spare key of the Alca"})
            assert refused.is_error
            assert "bearer token" in refused.content[0].text


async def test_a_server_for_a_network_needs_tokens_and_lends_none(product):
    with shared_server(product, host="0.0.0.0") as address:
        async with agent(address) as nobody:
            assert (await nobody.call_tool("contradictions", {})).is_error
        async with agent(address, BEN) as ben:
            assert not (await ben.call_tool("contradictions", {})).is_error


async def test_over_stdio_the_token_comes_from_the_environment(product):
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "compose", "mcp"], env=environment(product, BEN)
    )
    async with Client(command, read_timeout_seconds=60) as client:
        told = {"text": "Ben waters the plants on Mondays.", "type": "context"}
        assert (await client.call_tool("publish", told)).structured_content["scope"] == "personal/person-ben"


def test_what_a_hook_learns_belongs_to_the_tokens_principal(product):
    given = json.dumps(
        {"prompt": "which shape?", "response": "We decided to paint the Alca in teal.", "session_id": "s"}
    )
    done = subprocess.run(
        [sys.executable, "-m", "compose.hooks.entry", "learn", "--verbose"],
        input=given,
        capture_output=True,
        text=True,
        env=environment(product, ANA),
        timeout=60,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")
    parameters = {"q": "which paint for the Alca?"}

    def found():
        response = product.http.get("/v1/search", params=parameters, headers={"Authorization": f"Bearer {ANA}"})
        return [one["scope"] for one in response.json()["results"] if "teal" in one["text"]]

    assert until(found, 30, "what was learnt is found") == ["personal/person-ana"]
