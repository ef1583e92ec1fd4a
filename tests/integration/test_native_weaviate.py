"""Weaviate as a server of one's own: what it acknowledged is kept, on loopback, under the ports it was given."""

import httpx
import pytest

from compose.native.weaviate import WeaviatePorts, start_weaviate

pytestmark = [pytest.mark.anyio, pytest.mark.integration, pytest.mark.cluster, pytest.mark.timeout(300)]
ID = "7f1c1f0e-6d0f-4c55-9a55-0b8a0a8d3f11"
CLASS = {"class": "Note", "vectorizer": "none", "properties": [{"name": "text", "dataType": ["text"]}]}


def asked(url: str, path: str, body: dict | None = None) -> dict:
    with httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
        answer = client.get(path) if body is None else client.post(path, json=body)
    answer.raise_for_status()
    return answer.json()


async def test_what_was_acknowledged_is_there_after_a_kill_and_on_other_ports(tmp_path):
    server = await start_weaviate(tmp_path / "weaviate", WeaviatePorts.free())
    try:
        assert asked(server.url, "/v1/meta")["version"] == "1.35.2"
        asked(server.url, "/v1/schema", CLASS)
        asked(
            server.url, "/v1/objects", {"class": "Note", "id": ID, "properties": {"text": "kept"}, "vector": [0.6, 0.8]}
        )
        await server.kill()
        await server.start()
        assert asked(server.url, f"/v1/objects/Note/{ID}")["properties"] == {"text": "kept"}
    finally:
        await server.stop()
    server = await start_weaviate(tmp_path / "weaviate", WeaviatePorts.free())
    try:
        assert asked(server.url, f"/v1/objects/Note/{ID}")["properties"] == {"text": "kept"}
    finally:
        await server.stop()
    assert not server.running


async def test_a_property_that_nobody_declared_is_refused(tmp_path):
    server = await start_weaviate(tmp_path / "weaviate", WeaviatePorts.free())
    try:
        asked(server.url, "/v1/schema", CLASS)
        with pytest.raises(httpx.HTTPStatusError, match="422"):
            asked(server.url, "/v1/objects", {"class": "Note", "properties": {"other": "x"}})
    finally:
        await server.stop()
