"""The partitioner agrees with Kafka's clients."""

import pytest
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.partitioner import murmur2 as reference
from hypothesis import given
from hypothesis import strategies as st

from shared.partitioner import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "hashed", "of_four"),
    [
        (b"", 275646681, 1),
        (b"a", 2731586172, 0),
        (b"ab", 316155434, 2),
        (b"abc", 479470107, 3),
        (b"abcd", 2971317748, 0),
        (b"demo/unit-1", 3067675661, 1),
        ("demo/Zürich 東京".encode(), 3306484002, 2),
    ],
)
def test_known_keys_keep_their_partition_for_ever(key: bytes, hashed: int, of_four: int) -> None:
    assert murmur2(key) == hashed
    assert partition_of(key, 4) == of_four


@given(st.binary(max_size=300), st.integers(1, 256))
def test_every_key_goes_where_aiokafka_sends_it(key: bytes, partitions: int) -> None:
    everywhere = list(range(partitions))
    assert murmur2(key) == reference(key) & 0xFFFFFFFF
    assert partition_of(key, partitions) == DefaultPartitioner()(key, everywhere, everywhere)
