"""Names of cached results."""

import hashlib

SCHEMA = 1  # counts up when the meaning or form of a cached value changes: older values are then never found


def cache_key(kind: str, *parts: str) -> str:
    """Name a result of ``kind`` by everything it depends on; the parts are hashed, so no question's text is in a key.

    Each part is hashed with its length: ("ab", "c") and ("a", "bc") differ.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return f"cortex:{SCHEMA}:{kind}:{digest.hexdigest()}"
