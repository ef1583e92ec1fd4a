"""Cortex on servers of its own: any number of ingest and query processes on Kafka, a store and Redis."""
