"""What an ingest process says of itself: whether it lives, and whether it takes events now."""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from ingest.metrics import IngestMetrics

CHECK_S = 3.0  # above the pipeline's own wait for the broker


class Watched(Protocol):
    """A pipeline that can be asked."""

    async def troubles(self) -> Mapping[str, str]:
        """Return what keeps it from handling events, each part with its reason; nothing: it works."""
        ...


class IngestHealth:
    """The state of one process, through all its pipelines: the last one that was begun speaks for it."""

    def __init__(self, metrics: IngestMetrics) -> None:
        self.metrics = metrics
        self._pipeline: Watched | None = None

    def begun(self, pipeline: Watched) -> None:
        """Ask this pipeline from here on."""
        self._pipeline = pipeline

    async def troubles(self) -> dict[str, str]:
        """Return why events are not handled now; nothing: they are. Answers within CHECK_S."""
        pipeline = self._pipeline
        if pipeline is None:
            return {"pipeline": "starting"}
        try:
            async with asyncio.timeout(CHECK_S):
                return dict(await pipeline.troubles())
        except TimeoutError:
            return {"pipeline": f"no answer within {CHECK_S:g} s"}
