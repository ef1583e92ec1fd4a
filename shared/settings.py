"""Settings: environment variables with the prefix ``CORTEX_``, read once at start and passed down, frozen."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.units import TenantId

Port = Annotated[int, Field(ge=0, le=65_535)]
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Settings(BaseSettings):
    """Everything that can be set. Durations are in seconds unless the name says otherwise."""

    model_config = SettingsConfigDict(env_prefix="CORTEX_", frozen=True, extra="ignore")

    # where and who
    data_dir: Path = Field(default=Path(".cortex"), description="folder of the journal and the knowledge files")
    tenant: TenantId = Field(default="demo", description="tenant of the command line where none is given")
    host: str = "127.0.0.1"
    http_port: Port = 8420
    kafka_port: Port = 8421
    cache_port: Port = 8422
    tokens_file: Path | None = Field(default=None, description="bearer tokens, one JSON object a line; see the README")

    # which parts; None: the embedded one
    kafka_bootstrap: str | None = None
    redis_url: SecretStr | None = None
    topic_prefix: Annotated[str, Field(max_length=100, pattern=r"^[a-zA-Z0-9._-]*$")] = ""
    partitions: Annotated[int, Field(ge=1, le=256)] = 4
    embedder: Literal["minilm", "hashed"] = Field(default="minilm", description="'hashed' has no meaning: for tests")

    # ingest
    embed_threads: Annotated[int, Field(ge=1, le=64)] = 1
    retry_attempts: Annotated[int, Field(ge=1, le=20)] = 5
    retry_base_s: Annotated[float, Field(gt=0, le=60)] = 0.2
    lane_records: Annotated[int, Field(ge=1, le=10_000)] = 256
    drain_s: Annotated[float, Field(gt=0, le=30)] = 3.0
    broker_limit_mb: Annotated[int, Field(ge=64)] = 512

    # query
    query_threads: Annotated[int, Field(ge=1, le=64)] = 2
    search_deadline_ms: Annotated[int, Field(ge=10, le=60_000)] = 1_000
    answer_deadline_ms: Annotated[int, Field(ge=50, le=120_000)] = 3_000
    concurrent_answers: Annotated[int, Field(ge=1, le=10_000)] = 8
    waiting_answers: Annotated[int, Field(ge=0, le=100_000)] = 400
    heartbeat_s: Annotated[float, Field(gt=0, le=300)] = 15.0
    stream_limit_s: Annotated[float, Field(gt=0, le=3_600)] = 120.0
    feed_limit_s: Annotated[float, Field(gt=0, le=86_400)] = 3_600.0
    feed_readers: Annotated[int, Field(ge=0, le=100_000)] = 500
    feed_queue: Annotated[int, Field(ge=1, le=100_000)] = 256
    vector_memory_mb: Annotated[int, Field(ge=16)] = 1_024

    @model_validator(mode="after")
    def _budgets_nest(self) -> Self:
        if self.search_deadline_ms >= self.answer_deadline_ms:
            msg = "search_deadline_ms must be smaller than answer_deadline_ms"
            raise ValueError(msg)
        return self

    @property
    def cache_url(self) -> str:
        """The cache's address: the embedded one's where none is set."""
        return self.redis_url.get_secret_value() if self.redis_url else f"redis://127.0.0.1:{self.cache_port}/0"

    @property
    def journal_path(self) -> Path:
        """The journal's file."""
        return self.data_dir / "journal.db"

    @property
    def knowledge_dir(self) -> Path:
        """The folder of the tenants' knowledge files."""
        return self.data_dir / "knowledge"
