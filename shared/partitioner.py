"""Kafka's default partitioner, so that the journal and every producer agree on where a key belongs."""

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_WORD = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the 32-bit murmur2 hash (unsigned) with the seed of Kafka's Java clients."""
    length = len(data)
    value = _SEED ^ length
    whole = length - length % 4
    for start in range(0, whole, 4):
        block = int.from_bytes(data[start : start + 4], "little") * _MULTIPLIER & _WORD
        block = (block ^ block >> 24) * _MULTIPLIER & _WORD
        value = value * _MULTIPLIER & _WORD ^ block
    if whole < length:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _WORD
    value = (value ^ value >> 13) * _MULTIPLIER & _WORD
    return value ^ value >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition in [0, partitions) that Kafka's default partitioner gives the key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
