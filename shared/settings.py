"""Settings: environment variables with the prefix ``CORTEX_``, read once at start and passed down, frozen."""

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.units import TenantId

Port = Annotated[int, Field(ge=0, le=65_535)]
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
REDIS_SCHEMES = ("redis://", "rediss://", "unix://")


class EmbeddingEndpoint(BaseModel):
    """A model behind an OpenAI-compatible ``/embeddings`` endpoint. ``url``: up to and with ``/v1``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: Annotated[str, Field(pattern=r"^https?://\S+$")]
    model: Annotated[str, Field(min_length=1, max_length=150, pattern=r"^\S+$")]
    dims: Annotated[int, Field(ge=1, le=16_384)]
    key: SecretStr | None = None
    window_tokens: Annotated[int, Field(ge=16, le=100_000)] = Field(
        default=400, description="a longer text is embedded in windows of so many (estimated) tokens"
    )
    send_dims: bool = Field(default=False, description="ask for `dims` dimensions, of a model that can be shortened")

    @property
    def name(self) -> str:
        """The model's name as an index carries it: of another length, it is another model."""
        return f"{self.model}/{self.dims}"


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
    ingest_port: Port = Field(default=8424, description="figures and readiness of ingest (8423 is the MCP server's)")
    tokens_file: Path | None = Field(default=None, description="bearer tokens, one JSON object a line; see the README")
    webhook_secrets_file: Path | None = Field(
        default=None, description="secrets of incoming webhooks, one JSON object a line; see the README"
    )
    webhook_per_minute: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=60, description="incoming webhooks that a tenant may send a minute"
    )

    # which parts; None: the embedded one
    kafka_bootstrap: Annotated[str, Field(pattern=r"^\S+$")] | None = Field(
        default=None, description="host:port,host:port"
    )
    redis_url: SecretStr | None = None
    store: Literal["sqlite", "weaviate"] = "sqlite"
    weaviate_url: Annotated[str, Field(pattern=r"^https?://\S+$")] | None = None
    weaviate_grpc: Annotated[str, Field(pattern=r"^\S+:[0-9]{1,5}$")] | None = Field(
        default=None, description="host:port"
    )
    weaviate_consistency: Literal["ONE", "QUORUM", "ALL"] = "QUORUM"
    weaviate_replication: Annotated[int, Field(ge=1, le=9)] = 1
    topic_prefix: Annotated[str, Field(max_length=100, pattern=r"^[a-zA-Z0-9._-]*$")] = ""
    partitions: Annotated[int, Field(ge=1, le=256)] = 4
    replication: Annotated[int, Field(ge=1, le=9)] = Field(
        default=1, description="copies of each record that `cortex topics` asks of Kafka; 3 outlive a lost broker"
    )
    embedder: Literal["minilm", "hashed", "endpoint"] = Field(
        default="minilm", description="the model of new tenants; 'hashed' has no meaning: for tests"
    )
    embedder_url: str | None = Field(default=None, description="of an OpenAI-compatible endpoint, up to and with /v1")
    embedder_model: str | None = Field(default=None, description="the endpoint's name of the model")
    embedder_dims: Annotated[int, Field(ge=1, le=16_384)] | None = None
    embedder_key: SecretStr | None = Field(default=None, description="sent to the endpoint as a bearer token")
    other_embedders: tuple[EmbeddingEndpoint, ...] = Field(
        default=(), description="further endpoints, as JSON: models that a tenant's index may be of, or be changed to"
    )

    # what is told to others
    otlp_endpoint: str | None = Field(default=None, description="OpenTelemetry collector (OTLP over HTTP); None: off")

    # the door for events
    tenant_events_per_s: Annotated[float, Field(ge=0, le=1_000_000)] = Field(
        default=500.0, description="what one tenant may publish over HTTP, ten seconds of it at once; 0: no limit"
    )
    tenant_bytes_per_s: Annotated[float, Field(ge=0)] = Field(
        default=4 * 1024 * 1024, description="as tenant_events_per_s, in bytes: one largest batch a second"
    )
    tenant_live_events: Annotated[int, Field(ge=0)] = Field(
        default=1_000,
        description="a tenant with so many live events not stored yet gets its next ones into bulk; 0: never",
    )
    backlog_events: Annotated[int, Field(ge=1)] = Field(
        default=200_000, description="with so many accepted events not stored nothing more is taken; bulk stops at half"
    )

    # ingest
    embed_threads: Annotated[int, Field(ge=1, le=64)] = 1
    retry_attempts: Annotated[int, Field(ge=1, le=20)] = 5
    retry_base_s: Annotated[float, Field(gt=0, le=60)] = 0.2
    lane_records: Annotated[int, Field(ge=1, le=10_000)] = 256
    slow_event_s: Annotated[float, Field(gt=0, le=3_600)] = Field(
        default=10.0, description="an event that a stage has in hand for longer is named in log and figures"
    )
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

    @field_validator("kafka_bootstrap", "weaviate_url", "weaviate_grpc")
    @classmethod
    def _ports_are_ports(cls, value: str | None) -> str | None:
        for place in (value or "").split(","):
            _check_port(place)
        return value

    @field_validator("redis_url")
    @classmethod
    def _redis_has_an_address(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            address = value.get_secret_value()
            if not address.startswith(REDIS_SCHEMES):
                msg = f"it must begin with one of {', '.join(REDIS_SCHEMES)}"
                raise ValueError(msg)
            _check_port(address)
        return value

    @model_validator(mode="after")
    def _budgets_nest(self) -> Self:
        if self.search_deadline_ms >= self.answer_deadline_ms:
            msg = "search_deadline_ms must be smaller than answer_deadline_ms"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _endpoint_is_whole(self) -> Self:
        if self.embedder == "endpoint" and self.own_endpoint is None:
            msg = "embedder 'endpoint' needs embedder_url, embedder_model and embedder_dims"
            raise ValueError(msg)
        names = [endpoint.name for endpoint in self.endpoints]
        if len(names) > len(set(names)):
            msg = f"two embedding endpoints have one name and length: {', '.join(sorted(names))}"
            raise ValueError(msg)
        return self

    @property
    def own_endpoint(self) -> EmbeddingEndpoint | None:
        """The endpoint that the embedder_ settings name, whether it is the one of new tenants or not."""
        if self.embedder_url is None or self.embedder_model is None or self.embedder_dims is None:
            return None
        return EmbeddingEndpoint(
            url=self.embedder_url, model=self.embedder_model, dims=self.embedder_dims, key=self.embedder_key
        )

    @property
    def endpoints(self) -> tuple[EmbeddingEndpoint, ...]:
        """Every endpoint that may be used."""
        return (*([self.own_endpoint] if self.own_endpoint else []), *self.other_embedders)

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


def _check_port(address: str) -> None:
    """Raise ValueError where the port of ``host:port``, or of an address with a scheme, is none."""
    try:
        _ = urlsplit(address if "://" in address else f"//{address}").port
    except ValueError:
        msg = "its port is no number from 0 to 65535"  # the address may hold a password
        raise ValueError(msg) from None
