"""event → embed → resolve → store → contradictions."""
