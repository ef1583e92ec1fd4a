"""Topics on Apache Kafka: planned, applied, checked; nothing is taken away, and what would do harm is refused."""

import asyncio

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from compose.cli.topics import DIFFERS, run_apply, run_check, run_plan
from shared.errors import InvalidInput, LogUnavailable
from shared.kafka_admin import Action, apply, plan
from shared.topics import ALL_TOPICS, EMBEDDED, EVENTS, wanted_topics

pytestmark = [pytest.mark.anyio, pytest.mark.integration, pytest.mark.cluster]


async def altered(bootstrap: str, topic: str, configs: dict[str, str]) -> None:
    """Set exactly these values on a topic, as another tool would, and wait until the broker shows them."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    (answer,) = await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs)])
    await admin.close()
    assert [resource[0] for resource in answer.resources] == [0]
    async with asyncio.timeout(10):
        while await own_values(bootstrap, topic) != configs:  # noqa: ASYNC110 - a broker tells nobody
            await asyncio.sleep(0.05)


async def own_values(bootstrap: str, topic: str) -> dict[str, str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    await admin.close()
    ((_, _, _, _, entries),) = answer.resources
    return {entry[0]: entry[1] for entry in entries if entry[3] == 1}


async def test_what_is_missing_is_made_as_the_table_says_and_a_second_time_nothing_is_done(broker, prefix):
    table = wanted_topics(3, prefix=prefix)
    wanted = await plan(broker.bootstrap, table)
    assert [(change.action, change.topic) for change in wanted] == [(Action.CREATE, topic.name) for topic in table]
    assert await apply(broker.bootstrap, table) == wanted
    assert await plan(broker.bootstrap, table) == []
    assert await apply(broker.bootstrap, table) == []
    for topic in table:
        assert await own_values(broker.bootstrap, topic.name) == topic.configs


async def test_a_changed_value_is_found_and_set_back_and_what_others_set_stays(broker, prefix):
    table = wanted_topics(1, prefix=prefix)
    await apply(broker.bootstrap, table)
    name = f"{prefix}{EVENTS}"
    await altered(broker.bootstrap, name, {"retention.ms": "1000", "segment.bytes": "2000000"})
    changes = {change.setting: change for change in await plan(broker.bootstrap, table)}
    assert {change.topic for change in changes.values()} == {name}
    assert changes["retention.ms"].action is Action.CONFIGURE
    assert (changes["retention.ms"].found, changes["retention.ms"].wanted) == ("1000", "-1")
    await apply(broker.bootstrap, table)
    assert await plan(broker.bootstrap, table) == []
    assert (await own_values(broker.bootstrap, name))["segment.bytes"] == "2000000"


async def test_another_number_of_partitions_is_refused_with_its_reason_and_nothing_is_done(broker, prefix):
    name = f"{prefix}{EMBEDDED}"
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(name, 2, 1)])
    await admin.close()
    table = wanted_topics(4, prefix=prefix)
    with pytest.raises(InvalidInput, match=f"{name}: 2 partitions and not 4: keys would move"):
        await apply(broker.bootstrap, table)
    creations = [change for change in await plan(broker.bootstrap, table) if change.action is Action.CREATE]
    assert len(creations) == len(ALL_TOPICS) - 1


async def test_more_copies_than_brokers_are_refused_in_the_brokers_words(broker, prefix):
    with pytest.raises(InvalidInput, match=r"The broker refuses .*replication factor of 3"):
        await apply(broker.bootstrap, wanted_topics(1, 3, prefix))


async def test_a_broker_that_is_not_there_is_named():
    with pytest.raises(LogUnavailable, match=r"127\.0\.0\.1:1 does not answer"):
        await plan("127.0.0.1:1", wanted_topics(1), deadline_s=5)


def test_the_commands_say_by_their_exit_code_whether_all_is_in_line(broker, prefix, monkeypatch, capsys):
    monkeypatch.setenv("CORTEX_TOPIC_PREFIX", prefix)
    monkeypatch.setenv("CORTEX_KAFKA_BOOTSTRAP", broker.bootstrap)
    assert run_plan(None, 2, None, as_json=False) == DIFFERS
    assert f"create     {prefix}{EVENTS}: 2 partitions, 1 copies" in capsys.readouterr().out
    assert run_check(None, 2, None, as_json=False) == DIFFERS
    assert capsys.readouterr().out.startswith("9 topics differ: ")
    assert run_apply(None, 2, None, as_json=False) == 0
    assert run_check(broker.bootstrap, 2, 1, as_json=False) == 0
    assert capsys.readouterr().out.endswith("all topics are in line\n")
    assert run_plan(None, 5, None, as_json=True) == DIFFERS
    assert '"action": "refused"' in capsys.readouterr().out
