"""Who is who: keys of texts and names, and the view of declared names. Nothing here depends on the order of arrival."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from schemas.entities import EntityDeclaration
from schemas.limits import NAME_CHARS
from shared.graph import Resolved
from shared.identifiers import differs_in_identifier, identifiers
from shared.likeness import MisspellingIndex, alias_candidates
from shared.scripts import marks_class
from shared.text import fold, strip_accents

__all__ = [
    "AliasView",
    "DeclaredNames",
    "alias_candidates",
    "content_key",
    "declared_names",
    "differs_in_identifier",
    "fold_key",
    "id_key",
    "identifiers",
    "join_keys",
    "undeclared_id",
]

ID_MARK: Final = "="
UNDECLARED_MARK: Final = "~"
_RESOLVED_KEPT: Final = 100_000  # keys of a tenant whose resolution a view remembers; then it starts over

_LETTERS: Final = rf"[^\W\d_](?:[^\W\d_]|[{marks_class()}])*"
_ATOM: Final = re.compile(rf"^\.(?=\w)|{_LETTERS}|\d+(?:[.,]\d+)*|(?<=[^\W\d_])[+#]+")
_MINUS: Final = re.compile(r"(?:^|(?<=\s))[-−](?=\d)")
_LEADING_THE: Final = re.compile(r"^the\s+(?=.*\w)", re.IGNORECASE)
# Addresses and paths are identifiers: every character counts.
_EXACT: Final = re.compile(r"(?=.*[^\W\d_])(?:[^\s@]+@[^\s@]+|[^\s/]*/[^\s/]+/\S*|[^\s/]+/[^\s/]*\.\w+)")
_LEGAL_FORM: Final = re.compile(
    r"(?:^|(?<=\w))[\s,.&]*[\s,](?:inc|incorporated|corp|corporation|ltd|limited|llc|llp|plc|gmbh|mbh|kgaa|ohg|sarl|srl|oyj|pty"
    r"|pte|bhd|co\.?\s+kg|(?<=\D\s)(?:co|ag|sa|bv|nv|oy)|s\.\s?a\.(?:\s?s\.)?|s\.\s?p\.\s?a\.|s\.\s?r\.\s?l\.|s\.\s?a\.\s?r\.\s?l\."
    r"|b\.\s?v\.|n\.\s?v\.|l\.\s?l\.\s?[cp]\.|p\.\s?l\.\s?c\.)[.,\s]*$",
    re.IGNORECASE,
)
_CJK_FORM: Final = re.compile(
    r"^(?:株式会社|有限会社|合同会社|\(株\))\s*(?=\w)|(?<=\w)\s*(?:株式会社|有限会社|合同会社|\(株\)|股份有限公司|有限责任公司|有限公司)$"
)


def content_key(tenant: str, scope_key: str, text: str) -> str:
    """Return the identity of a text in a scope of a tenant: 32 hexadecimal digits of a hash over the folded text."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (tenant, scope_key, fold(text)):
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big"))
        digest.update(raw)
    return digest.hexdigest()


def id_key(entity_id: str) -> str:
    """Return the key of an entity that is named by its id."""
    return ID_MARK + entity_id


def undeclared_id(key: str) -> str:
    """Return the entity id that stands for a key which no declaration claims."""
    return UNDECLARED_MARK + key


def fold_key(surface: str) -> str:
    """Fold a name to its entity key: case, accents, spacing, hyphens, humps, a leading "the" and legal forms go.

    What tells things apart stays: digits and the separators between them (``1.2``, ``12``, ``1-2``), leading zeros, a
    minus sign, ``+`` and ``#`` (C, C++, C#), initials, scripts, whole addresses and paths. Idempotent. Symbols alone are
    kept as they are; only white space gives the empty key.
    """
    return _remembered_key(surface) if len(surface) <= NAME_CHARS else _key(surface)


@lru_cache(maxsize=100_000)
def _remembered_key(surface: str) -> str:
    return _key(surface)


def _key(surface: str) -> str:
    text = strip_accents(fold(surface))
    if _EXACT.fullmatch(text):
        return text
    core = _LEADING_THE.sub("", _without_legal_form(text), count=1)
    atoms = _ATOM.findall(_MINUS.sub("minus ", core))
    key = join_keys(atoms)
    return key if any(char.isalnum() for char in key) else text.replace(" ", "")


def join_keys(atoms: Iterable[str]) -> str:
    """Write key parts as one key; two digits never meet without a separator, so that ``1 2`` is not ``12``."""
    out: list[str] = []
    for atom in atoms:
        if out and atom[:1].isdigit() and out[-1][-1:].isdigit():
            out.append("-")
        out.append(atom)
    return "".join(out)


def _without_legal_form(text: str) -> str:
    """Take legal forms off the end ("Co., Ltd." is two) as long as a name remains."""
    while True:
        shorter = _CJK_FORM.sub("", _LEGAL_FORM.sub("", text, count=1), count=1)
        if shorter == text or not any(char.isalnum() for char in shorter):
            return text
        text = shorter


@dataclass(frozen=True)
class DeclaredNames:
    """What a declaration says about names: the entity and the folded keys that it claims."""

    entity_id: str
    name: str
    type: str | None
    keys: tuple[str, ...]


def declared_names(declaration: EntityDeclaration) -> DeclaredNames:
    """Return the sorted keys that a declaration claims by its name and aliases; names that fold to nothing claim none."""
    keys = {fold_key(surface) for surface in (declaration.name, *declaration.aliases)} - {""}
    return DeclaredNames(declaration.id, declaration.name, declaration.type.value, tuple(sorted(keys)))


class AliasView:
    """Which entity a key means: a function of the set of declarations, whatever their order (design, "Identity is a view").

    A key is exact when one entity claims it by name or alias, or, where nobody does, by its folded id. When several claim
    it nobody gets it: the key's own entity does, with the claimants as candidates. Else a guarded misspelling of one
    entity's names is ``fuzzy``. Else the key stands for itself.
    """

    def __init__(self, declarations: Iterable[EntityDeclaration | DeclaredNames] = ()) -> None:
        """Take declarations; of several with one id the last in (name, type, keys) order counts."""
        names = [d if isinstance(d, DeclaredNames) else declared_names(d) for d in declarations]
        names.sort(key=lambda d: (d.entity_id, d.name, d.type or "", d.keys))
        self._declared: dict[str, DeclaredNames] = {d.entity_id: d for d in names}
        self._claims = self._claimed()
        self._misspelt = MisspellingIndex(
            {key: (ids, self._declared[ids[0]].type) for key, ids in self._claims.items()}
        )
        self._resolved: dict[str, Resolved] = {}

    def _claimed(self) -> dict[str, tuple[str, ...]]:
        claims: dict[str, set[str]] = {}
        for names in self._declared.values():
            for key in names.keys:
                claims.setdefault(key, set()).add(names.entity_id)
        by_id: dict[str, set[str]] = {}
        for entity_id in self._declared:
            by_id.setdefault(fold_key(entity_id), set()).add(entity_id)
        for key, ids in by_id.items():
            claims.setdefault(key, ids)
        return {key: tuple(sorted(claims[key])) for key in sorted(claims)}

    @property
    def keys(self) -> frozenset[str]:
        """The keys that at least one declaration claims."""
        return frozenset(self._claims)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.claims(key)

    def claims(self, key: str) -> bool:
        """Say whether a declaration claims the key exactly (by name, alias or id)."""
        return key in self._claims or (key.startswith(ID_MARK) and key[1:] in self._declared)

    def resolve(self, key: str) -> Resolved:
        """Say which entity a key means; see the class. Never fails; remembers its answers."""
        known = self._resolved.get(key)
        if known is None:
            if len(self._resolved) >= _RESOLVED_KEPT:
                self._resolved.clear()
            known = self._resolved[key] = self._resolve(key)
        return known

    def _resolve(self, key: str) -> Resolved:
        if key.startswith(ID_MARK) and len(key) > 1:
            return self._by_id(key[1:])
        claimants = self._claims.get(key)
        if claimants is not None:
            return self._one_of(key, claimants, "exact", 1.0)
        found = self._misspelt.find(key)
        if found is None:
            return Resolved(undeclared_id(key), key, None, "unknown", 0.0)
        return self._one_of(key, found.entity_ids, "fuzzy", found.confidence)

    def _by_id(self, entity_id: str) -> Resolved:
        declared = self._declared.get(entity_id)
        if declared is None:
            return Resolved(entity_id, entity_id, None, "unknown", 0.0)
        return Resolved(entity_id, declared.name, declared.type, "exact", 1.0)

    def _one_of(self, key: str, entity_ids: tuple[str, ...], method: str, confidence: float) -> Resolved:
        if len(entity_ids) > 1:
            return Resolved(undeclared_id(key), key, None, "unknown", 0.0, entity_ids)
        declared = self._declared[entity_ids[0]]
        return Resolved(declared.entity_id, declared.name, declared.type, method, confidence)

    def keys_of(self, entity_id: str) -> tuple[str, ...]:
        """Return the keys that exactly mean this entity, sorted; of an undeclared one its own key."""
        if entity_id not in self._declared:
            key = entity_id[1:] if entity_id.startswith(UNDECLARED_MARK) else id_key(entity_id)
            return (key,) if key else ()
        own = {*self._declared[entity_id].keys, fold_key(entity_id)}
        return tuple(sorted({id_key(entity_id)} | {key for key in own if self._claims.get(key) == (entity_id,)}))

    def declared(self, entity_id: str) -> DeclaredNames | None:
        """Return what is declared about an entity, or None."""
        return self._declared.get(entity_id)
