"""The knowledge store on SQLite: one file a tenant, one process that writes, any number that read."""

from shared.stores.sqlite.reader import SqliteReader
from shared.stores.sqlite.writer import SqliteWriter

__all__ = ["SqliteReader", "SqliteWriter"]
