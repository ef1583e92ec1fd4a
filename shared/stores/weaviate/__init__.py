"""The knowledge store on Weaviate: any number of processes write and read. To be imported only where it is used."""

from shared.stores.weaviate.reader import WeaviateReader
from shared.stores.weaviate.writer import WeaviateWriter

__all__ = ["WeaviateReader", "WeaviateWriter"]
