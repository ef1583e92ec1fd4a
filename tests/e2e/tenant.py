"""One tenant of a running Cortex: what a producer and a reader of that tenant can do, and nothing more."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from aiokafka import AIOKafkaProducer
from httpx_sse import connect_sse

from tests.e2e.product import SEARCHABLE_S, SETTLED, Product, unit, until

SCOPE = "team/core"


@dataclass(frozen=True)
class Tenant:
    """A fresh tenant of a shared instance: cases cannot see each other."""

    product: Product
    name: str

    def unit(self, unit_id: str, text: str, *, scope: str = SCOPE, **fields: Any) -> dict[str, Any]:
        """Build an assertion of this tenant."""
        return unit(unit_id, text, tenant=self.name, scope=scope, **fields)

    def entity(self, entity_id: str, kind: str, name: str, *aliases: str) -> dict[str, Any]:
        """Build a declaration."""
        data = {"id": entity_id, "type": kind, "name": name, "aliases": aliases}
        return self._event(f"declare-{entity_id}", "entity.declared", data)

    def document(self, document_id: str, revision: int, texts: Sequence[str], **fields: Any) -> list[dict[str, Any]]:
        """Build all parts of a document's revision and its completion."""
        parts = [
            self.unit(
                f"{document_id}/{part}",
                text,
                document_id=document_id,
                part=part,
                revision=revision,
                event_id=f"{document_id}-{part}-{revision}",
                **fields,
            )
            for part, text in enumerate(texts)
        ]
        return [*parts, self.completion(document_id, revision, texts)]

    def completion(self, document_id: str, revision: int, texts: Sequence[str]) -> dict[str, Any]:
        """Build what ends a document's revision."""
        digest = hashlib.sha256("\x1e".join(texts).encode()).hexdigest()
        data = {"id": document_id, "revision": revision, "parts": len(texts), "hash": digest}
        return self._event(f"{document_id}-completed-{revision}", "document.completed", data)

    def _event(self, event_id: str, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        envelope = {"specversion": "1.0", "id": event_id, "source": "urn:test", "tenant": self.name}
        return {**envelope, "type": kind, "data": data}

    def publish(self, *events: dict[str, Any]) -> list[dict[str, Any]]:
        """Publish over HTTP."""
        return self.product.publish(*events)

    def tell(self, *events: dict[str, Any]) -> list[dict[str, Any]]:
        """Publish and wait until all of it is searchable."""
        accepted = self.publish(*events)
        self.settle(accepted)
        return accepted

    def settle(self, accepted: list[dict[str, Any]]) -> None:
        """Wait until the store has each event, whatever has become of it since."""
        for event in accepted:
            self.wait_state(event["id"], SETTLED, event["source"])

    def wait_state(self, event_id: str, state: str | tuple[str, ...], source: str = "urn:test") -> dict[str, Any]:
        """Wait until an event is in a state, or in one of several; give its status."""
        wanted = (state,) if isinstance(state, str) else state

        def reached() -> dict[str, Any] | None:
            response = self.get(f"/v1/events/{event_id}", source=source)
            found = response.json() if response.status_code == 200 else {}
            return found if found.get("state") in wanted else None

        return dict(until(reached, SEARCHABLE_S, f"{event_id} is {' or '.join(wanted)}"))

    def get(self, path: str, **parameters: Any) -> Any:
        """Read a page of this tenant."""
        return self.product.http.get(path, params={"tenant": self.name, **parameters})

    def ask(self, question: str, **options: Any) -> dict[str, Any]:
        """Ask for JSON."""
        address = {"tenant": self.name}
        response = self.product.http.post("/v1/context", json={"q": question, **options}, params=address)
        assert response.status_code == 200, response.text
        return dict(response.json())

    def stream(self, question: str, **options: Any) -> list[tuple[str, dict[str, Any]]]:
        """Ask for a stream; give its events by name."""
        address = {"tenant": self.name, "q": question, **options}
        with connect_sse(self.product.http, "GET", "/v1/context/stream", params=address) as source:
            return [(event.event, json.loads(event.data)) for event in source.iter_sse()]

    def ask_both(self, question: str, **options: Any) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
        """Ask for JSON and for a stream until both cite the same; give the answer, and the stream's events.

        A replica takes up what came into the graph at most twice a second: one of two answers may rest on more than the other.
        """

        def agreed() -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]] | None:
            answer, events = self.ask(question, **options), self.stream(question, **options)
            return (answer, events) if events[-1][1]["answer"]["citations"] == answer["citations"] else None

        return tuple(self.eventually(agreed, "the stream ends in what is answered as JSON"))

    def search(self, question: str, **parameters: Any) -> list[dict[str, Any]]:
        """Search; give the results, best first."""
        response = self.get("/v1/search", q=question, **{"limit": 50, **parameters})
        assert response.status_code == 200, response.text
        return list(response.json()["results"])

    def found(self, question: str, **parameters: Any) -> list[str]:
        """Search; give the ids, best first, each followed by those that say the same."""
        results = self.search(question, **parameters)
        return [unit_id for result in results for unit_id in (result["unit_id"], *result["also"])]

    def status(self) -> dict[str, Any]:
        """Give what the tenant has."""
        return dict(self.get("/v1/status").json())

    def units(self) -> int:
        """Count the live units."""
        return int(self.status()["counts"]["units"])

    def letters(self, **parameters: Any) -> list[dict[str, Any]]:
        """Give the tenant's newest dead letters that every replica knows: one learns of them a moment after another."""
        pages = []
        for _ in range(self.product.replicas):
            response = self.get("/v1/dead-letters", **{"limit": 50, "bodies": "true", **parameters})
            assert response.status_code == 200, response.text
            pages.append(list(response.json()["letters"]))
        return min(pages, key=len)

    def entities(self, name: str) -> dict[str, Any]:
        """Look a name up."""
        return dict(self.get("/v1/entities", q=name, limit=50).json())

    def entity_page(self, name: str, **parameters: Any) -> dict[str, Any]:
        """Give the page of the entity that a name means; empty while nobody knows it."""
        match = self.entities(name)["match"]
        if match is None:
            return {}
        response = self.get(f"/v1/entities/{quote(match['entity_id'])}", **parameters)
        return dict(response.json()) if response.status_code == 200 else {}

    def about(self, name: str) -> set[str]:
        """Give the ids of the units about the entity that a name means."""
        return {one["unit_id"] for one in self.entity_page(name).get("units", ())}

    def eventually(self, check: Callable[[], Any], what: str) -> Any:
        """Wait for what a replica shows a moment later than the store."""
        return until(check, SEARCHABLE_S, what)

    def produce(
        self,
        *bodies: bytes,
        topic: str = "cortex.events",
        partition: int | None = None,
        key: bytes | None = None,
        headers: Any = None,
    ) -> list[tuple[int, int]]:
        """Send records over the Kafka protocol, in order; give (partition, offset) of each."""
        return asyncio.run(self._produce(bodies, topic, partition=partition, key=key, headers=headers))

    async def _produce(self, bodies: Sequence[bytes], topic: str, **options: Any) -> list[tuple[int, int]]:
        producer = AIOKafkaProducer(bootstrap_servers=self.product.kafka, acks="all")
        await producer.start()
        try:
            sent = [await producer.send_and_wait(topic, body, **options) for body in bodies]
        finally:
            await producer.stop()
        return [(record.partition, record.offset) for record in sent]
