"""The events of a run, drawn from a seed, and what must be known when all of them are handled.

What is expected is worked out here from the rules alone: the highest revision of a unit counts, a retraction takes it away,
a document is the parts of its last complete revision. So a product that loses an event everywhere alike is found out too.
"""

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from schemas.events import Event, parse_event
from shared.log import EVENTS
from shared.logs.rows import make_row

TENANTS = ("north", "south")
SOURCES = ("urn:chat", "urn:wiki", "urn:mail")
REDELIVERED = 0.03  # of all events come once more, later
STRAYS = 0.01  # of the numbered units come in a partition that their key does not name
POISON_EVERY = 500  # events for one that nobody can use
BATCH = 25  # records published together, each of another thing, so that sending a batch again keeps the order of each
CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"


@dataclass(frozen=True)
class Said:
    """A record to publish. ``event`` None: bytes that nobody can use. ``stray``: to a partition that is not its key's."""

    tenant: str
    key: bytes
    body: bytes
    event: Event | None = None
    stray: bool = False
    again: bool = False


@dataclass
class Plan:
    """Batches to publish in order, and the outcome. ``live``: by tenant, the text of each unit that must be found."""

    seed: int
    batches: list[list[Said]] = field(default_factory=list)
    live: dict[str, dict[str, str]] = field(default_factory=lambda: {tenant: {} for tenant in TENANTS})
    gone: dict[str, set[str]] = field(default_factory=lambda: {tenant: set() for tenant in TENANTS})

    @property
    def records(self) -> int:
        """How many records are published."""
        return sum(len(batch) for batch in self.batches)

    @property
    def poison(self) -> list[bytes]:
        """The bytes of each record that must end as a dead letter, sorted."""
        return sorted(said.body for batch in self.batches for said in batch if said.event is None)

    def events(self) -> Iterator[Event]:
        """Yield each event once."""
        for batch in self.batches:
            yield from (said.event for said in batch if said.event is not None and not said.again)


def draw(seed: int, events: int) -> Plan:
    """Draw ``events`` events (a few more, so that the last thing is whole), their redeliveries and the poison."""
    plan, chance = Plan(seed), random.Random(seed)
    things = _Things(plan, chance)
    threads: list[list[Said]] = []
    while sum(map(len, threads)) < events:
        threads.extend(things.next())
    threads.extend([_poison(number, chance)] for number in range(max(3, events // POISON_EVERY)))
    _add_redeliveries(threads, chance)
    plan.batches = _batches(threads, chance)
    return plan


class _Things:
    """Draws one thing after the other: its events in their order, in one list each subject that keeps an order."""

    def __init__(self, plan: Plan, chance: random.Random) -> None:
        self._plan = plan
        self._chance = chance
        self._number = 0
        self._systems: dict[str, list[str]] = {tenant: [] for tenant in TENANTS}

    def next(self) -> list[list[Said]]:
        self._number += 1
        tenant = self._chance.choices(TENANTS, (4, 1))[0]
        kinds = (self._numbered, self._unnumbered, self._document, self._system, self._pair, self._said_by_many)
        return self._chance.choices(kinds, (45, 10, 8, 12, 4, 8))[0](tenant)

    def _numbered(self, tenant: str) -> list[list[Said]]:
        """Statements with the producer's revisions, at times out of order, at times retracted, and stated once more."""
        unit_id, revisions = f"unit-{self._number}", list(range(1, self._chance.randint(1, 5) + 1))
        if self._chance.random() < 0.3:
            self._chance.shuffle(revisions)
        retracted = revisions[-1] if len(revisions) > 1 and self._chance.random() < 0.3 else None
        said, name = [], self._name()
        for revision in revisions:
            text = f"{name} waits on shelf {revision * 7}."
            if revision == retracted:
                said.append(self._retraction(tenant, unit_id, revision))
                continue
            stray = retracted is None and self._chance.random() < STRAYS
            said.append(self._assertion(tenant, unit_id, text, revision=revision, stray=stray))
        highest = max(revisions)
        if highest == retracted:
            self._plan.gone[tenant].add(unit_id)
        else:
            self._plan.live[tenant][unit_id] = f"{name} waits on shelf {highest * 7}."
        return [said]

    def _unnumbered(self, tenant: str) -> list[list[Said]]:
        """Statements whose place in the log counts."""
        unit_id, count = f"loose-{self._number}", self._chance.randint(1, 4)
        name = self._name()
        texts = [f"{name} was weighed and has {number + 20} kilograms." for number in range(count)]
        said = [self._assertion(tenant, unit_id, text, event_id=f"{unit_id}@{n}") for n, text in enumerate(texts)]
        if count > 1 and self._chance.random() < 0.2:
            said.append(self._retraction(tenant, unit_id, None))
            self._plan.gone[tenant].add(unit_id)
        else:
            self._plan.live[tenant][unit_id] = texts[-1]
        return [said]

    def _document(self, tenant: str) -> list[list[Said]]:
        """One or two revisions; the second is shorter, so that the first leaves a tail to be removed."""
        document_id, parts = f"document-{self._number}", self._chance.randint(2, 6)
        said: list[Said] = []
        name = self._name()
        for revision in range(1, self._chance.randint(1, 2) + 1):
            count = parts if revision == 1 else max(1, parts - 2)
            texts = [f"{name} is told of by page {n} in print {revision}." for n in range(count)]
            given = [
                self._assertion(
                    tenant,
                    f"{document_id}/{n}",
                    text,
                    revision=revision,
                    document_id=document_id,
                    part=n,
                    key=document_id,
                )
                for n, text in enumerate(texts)
            ]
            self._chance.shuffle(given)
            digest = hashlib.sha256("\x1e".join(texts).encode()).hexdigest()
            data = {"id": document_id, "revision": revision, "parts": count, "hash": digest}
            completed = self._event(
                tenant, "document.completed", f"{document_id}-end-{revision}", data, key=document_id
            )
            said += [*given, completed]
            for n in range(parts):
                self._plan.live[tenant].pop(f"{document_id}/{n}", None)
                if n < count:
                    self._plan.live[tenant][f"{document_id}/{n}"] = texts[n]
                else:
                    self._plan.gone[tenant].add(f"{document_id}/{n}")
        return [said]

    def _system(self, tenant: str) -> list[list[Said]]:
        """A system is declared and renamed, depends on an older one, and units speak of it."""
        entity_id, name = f"system-{self._number}", self._name()
        declared = [
            self._declared(tenant, entity_id, name, aliases, revision)
            for revision, aliases in enumerate(([], [f"{name} Two"])[: self._chance.randint(1, 2)], 1)
        ]
        if self._systems[tenant]:
            other = self._chance.choice(self._systems[tenant])
            edge = {"source_id": entity_id, "relation": "depends_on", "target_id": other}
            declared.append(
                self._event(tenant, "relation.declared", f"{entity_id}-edge", {**edge, "revision": 1}, key=entity_id)
            )
            if self._chance.random() < 0.2:
                declared.append(
                    self._event(
                        tenant, "relation.retracted", f"{entity_id}-edge-off", {**edge, "revision": 2}, key=entity_id
                    )
                )
        self._systems[tenant].append(entity_id)
        threads = [declared]
        for n in range(self._chance.randint(1, 4)):
            unit_id, said = f"about-{self._number}-{n}", []
            for revision in range(1, self._chance.randint(1, 2) + 1):
                text = f"The {('door', 'pump', 'lamp', 'fence')[n]} limit of {name} is {revision + 3 * n}."
                said.append(self._assertion(tenant, unit_id, text, revision=revision))
                self._plan.live[tenant][unit_id] = text
            threads.append(said)
        return threads

    def _pair(self, tenant: str) -> list[list[Said]]:
        """Two units that cannot both hold."""
        name, threads = self._name(), []
        for side, number in (("a", 5), ("b", 6)):
            text, unit_id = f"The retry limit of {name} is {number}.", f"pair-{self._number}-{side}"
            threads.append([self._assertion(tenant, unit_id, text, revision=1)])
            self._plan.live[tenant][unit_id] = text
        return threads

    def _said_by_many(self, tenant: str) -> list[list[Said]]:
        """One text by two or three sources."""
        threads, text = [], f"{self._name()} closes at {self._number % 12 + 8} o'clock."
        for n, source in enumerate(SOURCES[: self._chance.randint(2, 3)]):
            threads.append([self._assertion(tenant, f"gate-{self._number}-{n}", text, revision=1, source=source)])
            self._plan.live[tenant][f"gate-{self._number}-{n}"] = text
        return threads

    def _name(self) -> str:
        """Draw a name that hardly anything else has: units that share one are compared with each other, each with each."""
        letters = "".join(self._chance.choice(CONSONANTS) + self._chance.choice(VOWELS) for _ in range(4))
        return letters.capitalize()

    def _declared(self, tenant: str, entity_id: str, name: str, aliases: Sequence[str], revision: int) -> Said:
        data = {"id": entity_id, "type": "system", "name": name, "aliases": aliases, "revision": revision}
        return self._event(tenant, "entity.declared", f"{entity_id}-{revision}", data, key=entity_id)

    def _assertion(
        self,
        tenant: str,
        unit_id: str,
        text: str,
        *,
        source: str = SOURCES[0],
        event_id: str | None = None,
        key: str | None = None,
        stray: bool = False,
        **given: Any,
    ) -> Said:
        scope = {"level": "team", "entity_id": "core"}
        data = {"id": unit_id, "text": text, "type": "context", "scope": scope, **given}
        name = event_id or f"{unit_id}-{given.get('revision')}"
        return self._event(tenant, "unit.asserted", name, data, key=key or unit_id, source=source, stray=stray)

    def _retraction(self, tenant: str, unit_id: str, revision: int | None) -> Said:
        data = {"id": unit_id} if revision is None else {"id": unit_id, "revision": revision}
        return self._event(tenant, "unit.retracted", f"{unit_id}-off", data, key=unit_id)

    def _event(
        self,
        tenant: str,
        kind: str,
        event_id: str,
        data: dict[str, Any],
        *,
        key: str,
        source: str = SOURCES[0],
        stray: bool = False,
    ) -> Said:
        envelope = {"specversion": "1.0", "id": event_id, "source": source, "tenant": tenant, "type": kind}
        event = parse_event({**envelope, "data": data})
        assert event.key == f"{tenant}/{key}"
        return Said(tenant, event.key.encode(), make_row(event, EVENTS, 1).body, event, stray)


def _poison(number: int, chance: random.Random) -> Said:
    """Draw a record that can never be used."""
    tenant = chance.choice(TENANTS)
    scope = {"level": "team", "entity_id": "core"}
    data = {"id": f"poison-{number}", "text": " ", "type": "context", "scope": scope}
    named = {"specversion": "1.0", "id": f"poison-{number}", "source": "urn:bad", "tenant": tenant, "data": data}
    bodies = (
        b"{no JSON %d" % number,
        orjson.dumps({**named, "type": "unit.asserted"}),
        orjson.dumps({**named, "type": "unit.guessed"}),
        orjson.dumps({**named, "type": "unit.asserted", "schemaversion": "9.0"}),
    )
    return Said(tenant, b"%s/poison-%d" % (tenant.encode(), number), bodies[number % len(bodies)])


def _add_redeliveries(threads: list[list[Said]], chance: random.Random) -> None:
    """Let some events come once more, anywhere after the first time."""
    for thread in threads:
        for place in range(len(thread) - 1, -1, -1):
            said = thread[place]
            if said.event is not None and chance.random() < REDELIVERED:
                later = chance.randint(place + 1, len(thread))
                thread.insert(later, Said(said.tenant, said.key, said.body, said.event, again=True))


def _batches(threads: list[list[Said]], chance: random.Random) -> list[list[Said]]:
    """Interleave the things, each in its own order; in one batch nothing comes twice.

    Things begin one after the other with some two hundred of them under way, as producers' would.
    """
    waiting, batches = list(reversed(threads)), []
    chance.shuffle(waiting)
    under_way: list[Iterator[Said]] = []
    while waiting or under_way:
        while waiting and len(under_way) < 200:
            under_way.append(iter(waiting.pop()))
        batch: list[Said] = []
        for thread in chance.sample(under_way, min(BATCH, len(under_way))):
            said = next(thread, None)
            if said is None:
                under_way.remove(thread)
            else:
                batch.append(said)
        if batch:
            batches.append(batch)
    return batches
