"""The knowledge store that the settings name."""

import hashlib

from shared.clock import Clock
from shared.errors import InvalidInput
from shared.settings import Settings
from shared.store import KnowledgeReader, KnowledgeWriter


def open_writer(settings: Settings, clock: Clock) -> KnowledgeWriter:
    """Open the store to write. Raises FolderReadOnly, and InvalidInput where a setting or the client is missing."""
    if settings.store == "weaviate":
        from shared.stores.weaviate import WeaviateWriter  # noqa: PLC0415 - 0.8 s of imports, and an extra

        url, grpc = _address(settings)
        return WeaviateWriter(
            url,
            grpc,
            clock,
            prefix=_collections(settings),
            consistency=settings.weaviate_consistency,
            replication=settings.weaviate_replication,
        )
    from shared.stores.sqlite import SqliteWriter  # noqa: PLC0415 - one of two

    # where Kafka is the log several processes may write: then they take turns
    return SqliteWriter(settings.knowledge_dir, clock, shared=settings.kafka_bootstrap is not None)


def open_reader(settings: Settings, clock: Clock, *, threads: int) -> KnowledgeReader:
    """Open the store to read. Raises InvalidInput where a setting or the client is missing."""
    if settings.store == "weaviate":
        from shared.stores.weaviate import WeaviateReader  # noqa: PLC0415 - 0.8 s of imports, and an extra

        url, grpc = _address(settings)
        return WeaviateReader(
            url, grpc, clock=clock, prefix=_collections(settings), consistency=settings.weaviate_consistency
        )
    from shared.stores.sqlite import SqliteReader  # noqa: PLC0415 - one of two

    return SqliteReader(
        settings.knowledge_dir, threads=threads, vector_memory_mb=settings.vector_memory_mb, clock=clock
    )


def _collections(settings: Settings) -> str:
    """Return what the collections' names begin with: two installations on one Weaviate have topic prefixes apart."""
    if not settings.topic_prefix:
        return "Cortex"
    return f"Cortex{hashlib.sha256(settings.topic_prefix.encode()).hexdigest()[:8]}"


def _address(settings: Settings) -> tuple[str, str]:
    if settings.weaviate_url is None or settings.weaviate_grpc is None:
        raise InvalidInput("The store is weaviate: set CORTEX_WEAVIATE_URL and CORTEX_WEAVIATE_GRPC (host:port).")
    return settings.weaviate_url, settings.weaviate_grpc
