"""Redis as a server of one's own: it keeps what it holds."""

import pytest
from redis.asyncio import Redis

from compose.native.ports import free_ports
from compose.native.redis import start_redis
from shared.errors import FolderInUse, NotReady, PortInUse

pytestmark = [pytest.mark.anyio, pytest.mark.integration]


async def test_what_was_written_is_there_after_a_kill_and_after_a_stop(tmp_path):
    (port,) = free_ports(1)
    server = await start_redis(tmp_path / "redis", port)
    async with Redis.from_url(server.url) as client:
        await client.set("first", "1")
    await server.kill()
    assert not server.running
    await server.start()
    async with Redis.from_url(server.url) as client:
        await client.set("second", "2")
    await server.stop()
    assert not server.running
    (other,) = free_ports(1)
    server = await start_redis(tmp_path / "redis", other)
    try:
        async with Redis.from_url(server.url) as client:
            assert await client.mget("first", "second") == [b"1", b"2"]
    finally:
        await server.stop()


async def test_one_that_cannot_start_says_why_and_leaves_nothing(tmp_path):
    (tmp_path / "redis" / "appendonlydir").mkdir(parents=True)
    (tmp_path / "redis" / "appendonlydir" / "appendonly.aof.manifest").write_text("nothing of the kind\n")
    with pytest.raises(NotReady, match=r"(?s)Redis ended at its start: .*manifest"):
        await start_redis(tmp_path / "redis", free_ports(1)[0])


async def test_another_server_on_its_port_is_not_taken_for_it(tmp_path):
    (port,) = free_ports(1)
    server = await start_redis(tmp_path / "one", port)
    try:
        with pytest.raises(PortInUse, match=f"Port {port} cannot be used"):
            await start_redis(tmp_path / "two", port)
    finally:
        await server.stop()


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_its_folder_is_held_until_it_has_ended(tmp_path, how):
    server = await start_redis(tmp_path / "redis", free_ports(1)[0])
    with pytest.raises(FolderInUse, match="stop it first"):
        await start_redis(tmp_path / "redis", free_ports(1)[0])
    await getattr(server, how)()
    server = await start_redis(tmp_path / "redis", free_ports(1)[0])
    await server.stop()
