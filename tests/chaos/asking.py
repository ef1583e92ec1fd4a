"""Questions to the query processes all through a run: each is answered, or refused with a reason, and none pretends.

What an answer may not be: an error nobody thought of (500), nothing at all, or complete while a source of it is lost.
"""

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Protocol

import httpx

from tests.chaos.plan import TENANTS, Plan
from tests.chaos.replicas import Replica, Replicas

EVERY_S = 0.5
ANSWER_S = 30.0  # an answer has a deadline of 3 s; the rest is for a machine with other things to do
AGREE_S = 60.0
LOOK_S = 0.5
QUESTIONS = 20
"""Questions at the end."""
LIMIT = 10
REFUSALS = {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}
PROBLEM = "application/problem+json"
SHOWN = 10


class Asked(Protocol):
    """Where questions are asked. ``store_away``: nothing of the store runs."""

    replicas: Replicas
    store_away: bool


class Asker:
    """Asks one replica after the other. ``answers``: how many of each kind; ``wrong``: those that may not be."""

    def __init__(self, world: Asked, plan: Plan, seed: int) -> None:
        self._world = world
        self._texts = [(tenant, text) for tenant in TENANTS for text in plan.live[tenant].values()]
        self._chance = random.Random(f"questions {seed}")
        self.answers: Counter[str] = Counter()
        self.wrong: list[str] = []

    async def run(self) -> None:
        """Ask until cancelled, never more than one question at a time."""
        async with httpx.AsyncClient(trust_env=False, timeout=ANSWER_S) as http:
            for replica in itertools.cycle(self._world.replicas.all):
                tenant, text = self._chance.choice(self._texts)
                await self._ask(http, replica, tenant, text)
                await asyncio.sleep(EVERY_S)

    async def _ask(self, http: httpx.AsyncClient, replica: Replica, tenant: str, text: str) -> None:
        if replica.excused and await replica.ready(http):
            replica.excused = False
        excused, away = replica.excused, self._world.store_away
        try:
            response = await _get(http, replica, tenant, text)
        except httpx.TransportError as error:
            kind = "none, the replica was killed" if excused or replica.excused else "none"
            fault = None if excused or replica.excused else f"no answer: {type(error).__name__} {error}"
        else:
            kind, fault = _judged(response, away=away and self._world.store_away)
        self.answers[kind] += 1
        if fault is not None and len(self.wrong) < SHOWN:
            self.wrong.append(f"{replica.name} to a question: {fault}")


def _judged(response: httpx.Response, *, away: bool) -> tuple[str, str | None]:
    """Return what kind of answer it is, and what is wrong with it. ``away``: the store was, all the time."""
    status = response.status_code
    if status in REFUSALS:
        typed = response.headers.get("content-type", "").startswith(PROBLEM) and response.json()["status"] == status
        kind = response.json()["type"] if typed else "untyped"
        return f"{status} {kind}", None if typed else f"{status} without a problem: {response.text[:300]}"
    if status != HTTPStatus.OK:
        return str(status), f"{status}: {response.text[:300]}"
    answer = response.json()
    kind = "complete" if answer["complete"] else "said to be incomplete"
    if answer["lost"] and (answer["complete"] or not answer["degraded"]):
        return kind, f"complete though {answer['lost'][:3]} is lost"
    if away and answer["complete"]:
        return kind, "complete though the store was away"
    return kind, None


async def differing_answers(replicas: Replicas, plan: Plan) -> list[str]:
    """Ask each replica the same about what must be known at the end; return where they differ or do not find it.

    A replica takes up what came into the graph at most twice a second: a question is asked until both agree, or a minute long.
    """
    await replicas.await_ready()
    found: list[str] = []
    async with httpx.AsyncClient(trust_env=False, timeout=ANSWER_S) as http:
        for tenant in TENANTS:
            units = sorted(plan.live[tenant].items())
            for unit_id, text in units[:: max(1, len(units) * len(TENANTS) // QUESTIONS)]:
                found += await _differing(http, replicas, tenant, unit_id, text)
    return found


async def _differing(http: httpx.AsyncClient, replicas: Replicas, tenant: str, unit_id: str, text: str) -> list[str]:
    faults: list[str] = ["never asked"]
    try:
        async with asyncio.timeout(AGREE_S):
            while faults:
                answers = [await _get(http, replica, tenant, text) for replica in replicas.all]
                faults = _faults([one.json() for one in answers], unit_id)
                if faults:
                    await asyncio.sleep(LOOK_S)
    except TimeoutError:
        return [f"{tenant}, asked about {unit_id} at the end: {fault}" for fault in faults]
    return []


def _faults(answers: list[dict[str, Any]], unit_id: str) -> list[str]:
    faults = [f"{one.get('title')} {one.get('detail')}" for one in answers if "results" not in one]
    if faults:
        return faults
    faults = [f"not complete: {one['lost'][:3]}" for one in answers if not one["complete"]]
    faults += ["it is not among the results" for one in answers if unit_id not in _units(one)]
    if len({_cited(one) for one in answers}) > 1:
        faults.append(f"the replicas cite differently: {' and '.join(map(_cited, answers))}")
    return faults


def _units(answer: Mapping[str, Any]) -> set[str]:
    return {unit_id for one in answer["results"] for unit_id in (one["unit_id"], *one["also"])}


def _cited(answer: Mapping[str, Any]) -> str:
    return ", ".join(f"{one['label']} {one['unit_id']}" for one in answer["citations"])


async def _get(http: httpx.AsyncClient, replica: Replica, tenant: str, text: str) -> httpx.Response:
    address = {"q": f"Is it so that {text.rstrip('.')}?", "tenant": tenant, "limit": LIMIT}
    return await http.get(f"{replica.url}/v1/context", params=address)
