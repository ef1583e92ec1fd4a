"""Units prepared for comparison, and the ones of them that are kept: most candidates come again and again."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NamedTuple

from ingest.differences import ComparedUnit
from ingest.names import SameEntity
from ingest.outlines import Outline, outline_of
from schemas.times import Moment
from schemas.units import LinkRelation, SourceType, Unit
from shared.identity import AliasView, fold_key, id_key
from shared.store import StoredUnit, UnitVersion

UNITS_KEPT: Final = 32_768
CHARACTERS_KEPT: Final = 16_000_000
"""Bounds of what is kept in memory: some 1.5 kB a unit beside its text."""


Key = tuple[str, int, UnitVersion]
"""The tenant, the version of its declared names, and which statement of which unit was prepared under them. A plain tuple:
two hundred are made for each unit that is checked."""


class Prepared(NamedTuple):
    """A unit as it is compared, and what a pair with it is recorded with."""

    compared: ComparedUnit
    outline: Outline
    revision: int
    passage_id: int
    history: str | None = None
    """The project whose history it tells: two commits of one tell what changed when, and never contradict each other."""


def prepare(unit: StoredUnit, view: AliasView) -> Prepared:
    """Read a unit once for all its comparisons: half a millisecond for three sentences."""
    stated = unit.known.unit
    compared = ComparedUnit(
        id=stated.id,
        text=stated.text,
        keys=frozenset(view.resolve(key).entity_id for key in own_keys(unit)),
        title=stated.title,
        claims=stated.claims,
        occurred_at=stated.occurred_at,
        valid_from=stated.valid_from,
        valid_until=stated.valid_until if isinstance(stated.valid_until, Moment) else None,
        supersedes=stated.supersedes,
    )
    outline = outline_of(compared, lambda name: entity_of(name, view))
    return Prepared(compared, outline, unit.known.state.revision, unit.passage_id, history_of(stated))


def history_of(unit: Unit) -> str | None:
    """Return the project whose history a unit tells; None for whatever states what holds."""
    return unit.project if unit.origin.source_type is SourceType.GIT_COMMIT else None


def own_keys(unit: StoredUnit) -> list[str]:
    """Return the keys under which a unit is found, its subject first."""
    subject = [unit.subject] if unit.subject else []
    links = [id_key(link.entity_id) for link in unit.known.unit.entity_links if link.relation is LinkRelation.ABOUT]
    return [*subject, *links, *(mention.key for mention in unit.mentions)]


def entity_of(name: str, view: AliasView) -> str:
    """Return the entity that a name means."""
    return view.resolve(fold_key(name)).entity_id


def same_entity(view: AliasView) -> SameEntity:
    """Return whether two names mean one entity, as a function."""
    return lambda name, other: entity_of(name, view) == entity_of(other, view)


class PreparedUnits:
    """The most recently used prepared units, within both bounds."""

    def __init__(self, units: int = UNITS_KEPT, characters: int = CHARACTERS_KEPT) -> None:
        self._units = units
        self._characters = characters
        self._kept: OrderedDict[Key, Prepared] = OrderedDict()
        self._held = 0

    def get(self, key: Key) -> Prepared | None:
        """Return a unit that is kept."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, prepared: Iterable[tuple[Key, Prepared]]) -> None:
        """Keep units, and let go of those that were not used for the longest time."""
        for key, unit in prepared:
            if key not in self._kept:
                self._kept[key] = unit
                self._held += len(unit.compared.text)
        while self._kept and (len(self._kept) > self._units or self._held > self._characters):
            _, oldest = self._kept.popitem(last=False)
            self._held -= len(oldest.compared.text)
