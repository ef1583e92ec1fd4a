"""Event logs: the journal on disk, and one in memory for tests."""
