"""question → intent → entities → weights → search → fuse → conflicts → format → JSON or SSE."""
