"""The servers of the cluster set-up, which a run and its undisturbed twin share."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path

from compose.native.kafka import KafkaPorts, KafkaServer, start_kafka
from compose.native.ports import free_ports
from compose.native.redis import RedisServer, start_redis
from compose.native.weaviate import WeaviatePorts, WeaviateServer, start_weaviate

CLIENT = "shared.stores.weaviate"  # its imports take seconds on a busy machine, in which nothing else would go on


class Servers:
    """Those that run. ``weaviate`` None: knowledge is in SQLite."""

    def __init__(self, kafka: KafkaServer, redis: RedisServer, weaviate: WeaviateServer | None) -> None:
        self.kafka = kafka
        self.redis = redis
        self.weaviate = weaviate


@asynccontextmanager
async def serving(folder: Path, *, weaviate: bool) -> AsyncIterator[Servers]:
    """Run the servers; none is left behind."""
    async with AsyncExitStack() as stack:
        kafka = await start_kafka(folder / "kafka", KafkaPorts.free())
        stack.push_async_callback(kafka.kill)
        redis = await start_redis(folder / "redis", free_ports(1)[0])
        stack.push_async_callback(redis.kill)
        store = await start_weaviate(folder / "weaviate", WeaviatePorts.free()) if weaviate else None
        if store is not None:
            stack.push_async_callback(store.kill)
            await asyncio.to_thread(import_module, CLIENT)
        yield Servers(kafka, redis, store)
