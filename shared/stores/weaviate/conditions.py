"""Conditions of a query in Weaviate, made here and only handed back to the client."""

from collections.abc import Collection, Iterable
from typing import Any
from uuid import UUID

from weaviate.classes.query import Filter

Condition = Any
"""A filter of the client's."""


def one_of(name: str, values: Iterable[Any]) -> Condition:
    """Return the condition that a property is (or has, where it holds several) one of the values."""
    return Filter.by_property(name).contains_any(list(values))


def either(values: Iterable[tuple[str, str | int]]) -> Condition:
    """Return the condition that a property has (or is) its value, for any of the pairs; one at least."""
    by_name: dict[str, list[str | int]] = {}
    for name, value in values:
        by_name.setdefault(name, []).append(value)
    conditions = [one_of(name, those) for name, those in by_name.items()]
    return Filter.any_of(conditions) if len(conditions) > 1 else conditions[0]


def is_(name: str, value: str | int) -> Condition:
    """Return the condition that a property has a value, or a term."""
    return Filter.by_property(name).equal(value)


def true(name: str) -> Condition:
    """Return the condition that a flag is set."""
    return Filter.by_property(name).equal(val=True)


def at_most(name: str, value: int) -> Condition:
    """Return the condition that a number is no more than another."""
    return Filter.by_property(name).less_or_equal(value)


def above(name: str, value: str | int) -> Condition:
    """Return the condition that a number is more than another, or that a text comes after it."""
    return Filter.by_property(name).greater_than(value)


def below(name: str, value: int) -> Condition:
    """Return the condition that a number is less than another."""
    return Filter.by_property(name).less_than(value)


def among(ids: Collection[UUID]) -> Condition:
    """Return the condition that an object has one of the ids."""
    return Filter.by_id().contains_any([str(one) for one in ids])


def every(*conditions: Condition) -> Condition:
    """Return the condition that all hold; one at least."""
    return Filter.all_of(list(conditions)) if len(conditions) > 1 else conditions[0]


def without(name: str, value: str) -> Condition:
    """Return the condition that a property of several values has not this one."""
    return Filter.by_property(name).contains_none([value])
