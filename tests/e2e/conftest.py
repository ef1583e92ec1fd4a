"""One running Cortex for all cases, and a fresh tenant of it for each test."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.conftest import BROKER
from tests.e2e.cluster_product import ClusterProduct
from tests.e2e.product import Product
from tests.e2e.tenant import Tenant

PATIENT = {"CORTEX_SEARCH_DEADLINE_MS": "15000", "CORTEX_ANSWER_DEADLINE_MS": "25000"}
_numbers = count(1)


@pytest.fixture(scope="package")
def shared_product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """An empty Cortex that all cases share, with deadlines for a machine that has other things to do.

    Locally one process tree; with ``CORTEX_TEST_BROKER=kafka`` two ingest and two query processes on Kafka, Weaviate and
    Redis.
    """
    kind = ClusterProduct if BROKER == "kafka" else Product
    product = kind(tmp_path_factory.mktemp("cases") / "data", env=PATIENT)
    try:
        product.start()
        yield product
    finally:
        product.close()


@pytest.fixture
def cluster(shared_product: Product) -> ClusterProduct:
    """The shared Cortex as a cluster, whose processes and servers can be disturbed."""
    assert isinstance(shared_product, ClusterProduct)
    return shared_product


@pytest.fixture
def tenant(shared_product: Product) -> Tenant:
    """A tenant that nobody has used."""
    return Tenant(shared_product, f"case-{next(_numbers)}")
