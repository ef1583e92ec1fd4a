"""Which embedding models a tenant's texts are embedded by: the active one always, the others as far as they can.

An event is embedded by the model that is active when it comes in. What the store has changed to by the time the event gets
there is made up for just before it is stored, and so are the vectors of a model that is being built, or kept to go back to.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import structlog

from ingest.delivery import Delivery
from schemas.events import UnitAsserted
from shared.embedder import Embedder, Embedders, Vectors
from shared.errors import CortexError, DeadlineExceeded, EmbedderUnavailable, NotReady
from shared.passages import stated_text
from shared.store import Effect, KnowledgeReader, KnowledgeWriter
from shared.vector_models import KnownModel

EMBED_DEADLINE_S: Final = 60.0  # the longest unit is some fifty chunks of 10 ms; a minute is an embedder that hangs
BESIDE_S: Final = (
    1.0  # a window's events wait no longer for a model that nobody searches: its job makes up for the rest
)
PAUSE_S: Final = (
    30.0  # for a model beside that has just failed, as long: live events do not wait for it again and again
)
PROBE: Final = "Is the embedder well?"

_log = structlog.get_logger(__name__)


class TenantModels:
    """The tenants' models, and the embedders of this process for them.

    ``beside_s``: how long the events of a window wait for each model that is not searched.
    """

    def __init__(self, writer: KnowledgeWriter, embedders: Embedders, *, beside_s: float = BESIDE_S) -> None:
        self._writer = writer
        self._beside_s = beside_s
        self._embedders = embedders
        self._paused_until: dict[str, float] = {}

    async def of(self, model: str | None) -> Embedder:
        """Return a model's embedder. Raises UnknownModel, and NotReady where it cannot be opened now."""
        try:
            return await self._embedders.of(model)
        except EmbedderUnavailable as error:
            raise NotReady(f"the embedder of {model} cannot be opened: {error}") from error

    async def active(self, tenant: str) -> Embedder:
        """Return the embedder of what is searched; the wanted one where there is nothing yet. Raises as `of`."""
        known = await self._writer.models(tenant)
        return await self.of(known[0].name if known else None)

    async def complete(self, tenant: str, effects: Sequence[Effect], delivery: Delivery) -> list[Effect]:
        """Return the effects with the vectors that they lack, of the active model in any case.

        Raises what `Delivery.attempt` does where that one cannot embed a text; UnknownModel, NotReady, StoreUnavailable.
        """
        known = await self._writer.models(tenant)
        left_s = dict.fromkeys((model.name for model in known), self._beside_s)
        return [await self._complete(tenant, effect, known, left_s, delivery) for effect in effects]

    async def _complete(
        self, tenant: str, effect: Effect, known: Sequence[KnownModel], left_s: dict[str, float], delivery: Delivery
    ) -> Effect:
        embedding = effect.message.embedding
        if embedding is None or not isinstance(effect.event, UnitAsserted):
            return effect
        text = stated_text(effect.event.data)
        beside = dict(effect.beside)
        for model in known:
            if model.name == embedding.model or model.name in beside:
                continue
            kept = (await self._writer.known_vectors(model.name, tenant, [embedding.content_key])).values()
            vectors = next(iter(kept), None)
            if vectors is None and model.active:
                embedder = await self.of(model.name)
                vectors = await delivery.attempt(
                    lambda embedder=embedder: embed(embedder, text),  # type: ignore[misc] # bound now
                    healthy=lambda embedder=embedder: is_well(embedder),  # type: ignore[misc] # bound now
                )
            if vectors is None:
                vectors = await self._if_it_can(model.name, text, left_s)
            if vectors is not None:
                beside[model.name] = vectors
        return replace(effect, beside=beside)

    async def _if_it_can(self, model: str, text: str, left_s: dict[str, float]) -> Vectors | None:
        """Embed by a model that is not searched, unless it takes too long or has just failed."""
        began = time.monotonic()
        if left_s[model] <= 0 or began < self._paused_until.get(model, 0.0):
            return None
        try:
            async with asyncio.timeout(left_s[model]):
                return await (await self._embedders.of(model)).embed_text(text)
        except (CortexError, TimeoutError) as error:
            self._paused_until[model] = time.monotonic() + PAUSE_S
            _log.warning("model.beside_skipped", model=model, error=type(error).__name__)
            return None
        finally:
            left_s[model] -= time.monotonic() - began


async def embed(embedder: Embedder, text: str) -> Vectors:
    """Embed a text. Raises EmbedderUnavailable, InvalidInput, DeadlineExceeded."""
    try:
        async with asyncio.timeout(EMBED_DEADLINE_S):
            return await embedder.embed_text(text)
    except TimeoutError as error:
        raise DeadlineExceeded(f"The embedder took over {EMBED_DEADLINE_S} s.") from error


async def is_well(embedder: Embedder) -> bool:
    """Tell whether an embedder works for another text: only then is this one to blame."""
    try:
        await embed(embedder, PROBE)
    except Exception:  # noqa: BLE001 - whatever it is, it is not this text's fault
        return False
    return True


async def check_models(writer: KnowledgeWriter, reader: KnowledgeReader, embedders: Embedders) -> None:
    """See that the index of every tenant can be added to. Raises UnknownModel where the settings do not name its model."""
    wanted = embedders.wanted.model
    for tenant in await reader.tenants():
        for model in await writer.models(tenant):
            if model.active and model.name != wanted:
                await embedders.of(model.name)
                advice = f"cortex model change {wanted}"
                _log.warning("model.differs", tenant=tenant, active=model.name, wanted=wanted, advice=advice)
