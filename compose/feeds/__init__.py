"""Feeds: producers that publish what lies in folders and repositories."""
