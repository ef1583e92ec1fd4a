"""Moving and proving: a store rebuilt from the log, events taken out and in, knowledge moved to another store."""
