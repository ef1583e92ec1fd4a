"""Real servers without containers: Kafka, Weaviate and Redis on loopback, with their data in a folder."""
