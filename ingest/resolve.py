"""resolve: which entities a text mentions and what it claims; pure functions of the text."""

import asyncio
from collections.abc import Sequence

from ingest.claims import extract_claims
from ingest.hop import Hop, Hopped
from ingest.intake import read_event
from ingest.lanes import Draining
from ingest.subjects import subject_mentions
from schemas.events import UnitAsserted
from schemas.messages import Resolution
from schemas.units import Unit
from shared.kafka import RESOLVED, Record
from shared.mentions import find_mentions

LONG_TEXT = 4_000  # characters from which on the work leaves the event loop, which it would hold for milliseconds


class ResolveStage:
    """From ``cortex.embedded`` to ``cortex.resolved``."""

    def __init__(self, hop: Hop) -> None:
        self._hop = hop

    async def work(self, records: Sequence[Record], draining: Draining) -> int:
        """Resolve each message and hand it on."""
        outputs: list[Hopped] = []
        done = 0
        for record in records:
            if done and draining():
                break
            hopped = await self._hop.read(record)
            if hopped is not None:
                with self._hop.hold([hopped.message]), self._hop.trace([hopped.message]):
                    outputs.append(await self._resolve(hopped))
            done += 1
            await asyncio.sleep(
                0
            )  # a window is a quarter of a second of work: the other stages' results come in between
        await self._hop.publish(RESOLVED, records[0].partition, [output.record() for output in outputs])
        return done

    async def _resolve(self, hopped: Hopped) -> Hopped:
        if hopped.idle:
            return hopped

        async def work() -> Hopped:
            event = read_event(hopped.message.event)
            if not isinstance(event, UnitAsserted):
                return hopped
            resolution = await resolve_text(event.data)
            return Hopped(hopped.message.model_copy(update={"resolution": resolution}), hopped.vectors)

        return await self._hop.attempt(hopped, work)


async def resolve_text(unit: Unit) -> Resolution:
    """Do as `resolve_unit`; a long text in a thread."""
    if len(unit.text) > LONG_TEXT:
        return await asyncio.to_thread(resolve_unit, unit)
    return resolve_unit(unit)


def resolve_unit(unit: Unit) -> Resolution:
    """Return the mentions and claims of a unit; the producer's claims stand where it gave any."""
    mentions = find_mentions(unit.text, unit.title)
    claims = unit.claims or extract_claims(unit.text)
    return Resolution(mentions=mentions + subject_mentions(unit.text, claims, mentions), claims=claims)
