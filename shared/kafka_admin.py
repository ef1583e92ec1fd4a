"""Topics at the broker: made, compared with what is wanted, and brought in line where that takes nothing away.

Measured on the embedded broker, and the reason for what looks odd here: it makes a missing topic up on the first metadata
request that names it, and it does not alter configurations.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code

from shared.errors import InvalidInput, LogUnavailable
from shared.topics import ALL_TOPICS, COMPACTED, WantedTopic, topic_name

DEADLINE_S: Final = 10.0  # an answer takes milliseconds; ten seconds are a broker that is gone
EXISTS: Final = 36  # Kafka's TOPIC_ALREADY_EXISTS: another process was faster
OWN_VALUE: Final = 1  # Kafka's config source DYNAMIC_TOPIC_CONFIG: set on this topic, not inherited
SEE_S: Final = 0.05  # a broker hears of a change from its controller some 10 ms later


class Action(StrEnum):
    """What is to be done about a topic."""

    CREATE = "create"
    CONFIGURE = "configure"
    REFUSED = "refused"


@dataclass(frozen=True)
class Change:
    """One difference between the table and the broker. ``reason``: why it cannot be made, of REFUSED alone."""

    topic: str
    action: Action
    setting: str
    found: str | None
    wanted: str
    reason: str | None = None


async def cluster_id(bootstrap: str, *, deadline_s: float = DEADLINE_S) -> str:
    """Return the id of the cluster, once it has a broker that serves. Raises LogUnavailable."""
    async with _admin(bootstrap, deadline_s) as admin:
        described = await admin.describe_cluster()
        if not described["brokers"] or not described.get("cluster_id"):
            raise LogUnavailable(f"The broker at {bootstrap} does not serve yet.")
        return str(described["cluster_id"])


async def plan(bootstrap: str, table: Sequence[WantedTopic], *, deadline_s: float = DEADLINE_S) -> list[Change]:
    """Compare the table with the broker and return what differs, in the table's order; nothing is changed.

    Raises LogUnavailable.
    """
    async with _admin(bootstrap, deadline_s) as admin:
        there = await _found(admin, [topic.name for topic in table])
        return [change for topic in table for change in _differences(topic, there.get(topic.name))]


async def apply(bootstrap: str, table: Sequence[WantedTopic], *, deadline_s: float = DEADLINE_S) -> list[Change]:
    """Make what is missing, set what is set otherwise, and return what was done. Other values of a topic stay.

    Raises InvalidInput, which names each difference that cannot be made, before anything is done; LogUnavailable.
    """
    changes = await plan(bootstrap, table, deadline_s=deadline_s)
    _refuse(changes)
    wanted = {topic.name: topic for topic in table}
    async with _admin(bootstrap, deadline_s) as admin:
        await _make(admin, [wanted[change.topic] for change in changes if change.action is Action.CREATE])
        differing = dict.fromkeys(change.topic for change in changes if change.action is Action.CONFIGURE)
        await _configure(admin, [wanted[name] for name in differing])
        await _settled(admin, table)
    return changes


def _refuse(changes: Sequence[Change]) -> None:
    """Raise InvalidInput where a change cannot be made, once for each reason."""
    refused = [change for change in changes if change.action is Action.REFUSED]
    topics: dict[str, list[str]] = {}
    for change in refused:
        topics.setdefault(change.reason or "", []).append(change.topic)
    if topics:
        raise InvalidInput("; ".join(f"{', '.join(names)}: {reason}" for reason, names in topics.items()))


def _differences(topic: WantedTopic, found: "_Found | None") -> list[Change]:
    """Compare one topic. A missing one is one change; of a present one each setting is."""
    if found is None:
        wanted = f"{topic.partitions} partitions, {topic.replication} copies"
        return [Change(topic.name, Action.CREATE, "topic", None, wanted)]
    changes = []
    if found.partitions != topic.partitions:
        reason = (
            f"{found.partitions} partitions and not {topic.partitions}: keys would move to others, and their order be "
            f"lost. Set the number of partitions to {found.partitions}, or export into a new prefix."
        )
        changes.append(
            Change(topic.name, Action.REFUSED, "partitions", str(found.partitions), str(topic.partitions), reason)
        )
    if found.replication != topic.replication:
        reason = (
            f"{found.replication} copies and not {topic.replication}: move it with kafka-reassign-partitions, "
            f"or set the replication to {found.replication}."
        )
        changes.append(
            Change(topic.name, Action.REFUSED, "replication", str(found.replication), str(topic.replication), reason)
        )
    return changes + [
        Change(topic.name, Action.CONFIGURE, name, found.configs.get(name), value)
        for name, value in sorted(topic.configs.items())
        if found.configs.get(name) != value
    ]


@dataclass(frozen=True)
class _Found:
    """A topic as the broker describes it. ``configs``: all values; ``own``: those that are set on the topic itself."""

    partitions: int
    replication: int
    configs: Mapping[str, str]
    own: Mapping[str, str]


async def _found(admin: Any, names: Sequence[str]) -> dict[str, _Found]:
    described = await _described(admin, names)
    configs = await _configs(admin, list(described))
    return {
        name: _Found(
            len(partitions),
            min(len(partition["replicas"]) for partition in partitions),
            {key: value for key, (value, _) in configs[name].items()},
            {key: value for key, (value, source) in configs[name].items() if source == OWN_VALUE},
        )
        for name, partitions in described.items()
    }


async def _described(admin: Any, names: Iterable[str]) -> dict[str, list[Any]]:
    """Return the partitions of those topics that exist."""
    there = set(await admin.list_topics())  # asked first, because naming a missing topic could make it
    wanted = [name for name in names if name in there]
    if not wanted:
        return {}
    return {topic["topic"]: topic["partitions"] for topic in await admin.describe_topics(wanted) if topic["partitions"]}


async def _configs(admin: Any, names: Sequence[str]) -> dict[str, dict[str, tuple[str, int]]]:
    """Return, for each topic, its configuration as {name: (value, source)}."""
    if not names:
        return {}
    answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in names])
    found: dict[str, dict[str, tuple[str, int]]] = {}
    for code, message, _, name, entries in (row for answer in answers for row in answer.resources):
        if code:
            raise _refusal(code, name, message)
        # (name, value, read only, source, sensitive, synonyms)
        found[name] = {entry[0]: (entry[1], entry[3]) for entry in entries}
    return found


async def _make(admin: Any, topics: Sequence[WantedTopic]) -> None:
    if not topics:
        return
    answer = await admin.create_topics(
        [
            NewTopic(topic.name, topic.partitions, topic.replication, topic_configs=dict(topic.configs))
            for topic in topics
        ]
    )
    for fault in answer.to_object()["topic_errors"]:
        if fault["error_code"] not in (0, EXISTS):
            raise _refusal(fault["error_code"], fault["topic"], fault.get("error_message"))


async def _configure(admin: Any, topics: Sequence[WantedTopic]) -> None:
    """Set the wanted values. The request replaces all that is set on a topic, so what others set there is sent again."""
    if not topics:
        return
    found = await _found(admin, [topic.name for topic in topics])
    resources = [
        ConfigResource(ConfigResourceType.TOPIC, topic.name, {**found[topic.name].own, **topic.configs})
        for topic in topics
    ]
    for answer in await admin.alter_configs(resources):
        for code, message, _, name in answer.resources:
            if code:
                raise _refusal(code, name, message)


def _refusal(code: int, topic: str, message: str | None) -> Exception:
    """Return what a broker's refusal is: something that may pass, or something to be mended."""
    kind = for_code(code)
    if kind.retriable:
        return kind(topic)  # type: ignore[no-any-return] # aiokafka is untyped
    return InvalidInput(f"The broker refuses {topic}: {message or kind.__name__}.")


async def _settled(admin: Any, table: Sequence[WantedTopic]) -> None:
    """Wait until the broker shows what was asked of its controller; the caller's deadline bounds it."""
    while True:
        there = await _found(admin, [topic.name for topic in table])
        left = [change for topic in table for change in _differences(topic, there.get(topic.name))]
        _refuse(left)  # another process made a topic in the meantime, and otherwise
        if not left:
            return
        await asyncio.sleep(SEE_S)


async def create_topics(
    bootstrap: str, partitions: int, *, prefix: str = "", replace: bool = False, deadline_s: float = DEADLINE_S
) -> None:
    """Make the topics that are missing on an embedded broker, all with the same number of partitions.

    ``replace``: a topic with another number is deleted and made anew. For the embedded broker only, which invents a topic
    when a producer names it before we made it; nothing in it was accepted. Without it InvalidInput is raised.
    Raises LogUnavailable.
    """
    names = [topic_name(prefix, topic) for topic in ALL_TOPICS]
    async with _admin(bootstrap, deadline_s) as admin:
        there = await partition_counts(admin, names)
        wrong = {name: count for name, count in there.items() if count != partitions}
        if wrong and not replace:
            raise InvalidInput(f"Topics have another number of partitions than {partitions}: {wrong}.")
        if wrong:
            await admin.delete_topics(list(wrong))
        missing = [topic for topic in ALL_TOPICS if there.get(topic_name(prefix, topic)) != partitions]
        # it knows no other configuration
        policy = {topic: {"cleanup.policy": "compact"} if topic in COMPACTED else {} for topic in missing}
        await _make(admin, [WantedTopic(topic_name(prefix, topic), partitions, 1, policy[topic]) for topic in missing])
        while len(await _described(admin, names)) < len(names):  # noqa: ASYNC110 - a broker tells nobody
            await asyncio.sleep(SEE_S)


async def partition_counts(admin: Any, names: Iterable[str]) -> dict[str, int]:
    """Return the number of partitions of those topics that exist."""
    return {name: len(partitions) for name, partitions in (await _described(admin, names)).items()}


async def open_admin(bootstrap: str, stack: AsyncExitStack) -> Any:
    """Connect; the stack disconnects. Raises KafkaError, OSError."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, client_id="cortex", request_timeout_ms=5_000)
    stack.push_async_callback(admin.close)
    await admin.start()
    return admin


@asynccontextmanager
async def _admin(bootstrap: str, deadline_s: float) -> AsyncIterator[Any]:
    """Yield a connection for a few requests, which must end within the deadline. Raises LogUnavailable."""
    try:
        async with asyncio.timeout(deadline_s), AsyncExitStack() as stack:
            yield await open_admin(bootstrap, stack)
    except (KafkaError, OSError, TimeoutError) as error:
        raise LogUnavailable(f"The broker at {bootstrap} does not answer.") from error
