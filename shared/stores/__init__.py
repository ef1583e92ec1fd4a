"""Knowledge stores: one on SQLite for a machine of one's own, one in memory."""
