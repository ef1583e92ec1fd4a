"""The entity graph in memory: takes contributions, hands out immutable snapshots; igraph ranks in them."""

import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from schemas.graph import Contribution
from shared.graph import PAGERANK_VERTICES
from shared.graphs.builder import TenantBuilder
from shared.graphs.kept import read_bodies, write_bodies
from shared.graphs.ledger import Ledger
from shared.graphs.snapshot import ReplicaSnapshot

REFRESH_S: Final = 0.5  # at most twice a second (design §7)
LOAD_BATCH: Final = 1_000  # about 20 ms under the lock, so that a load in a thread does not hold up the event loop
REFRESH_SHARE: Final = 20  # a build of a second is followed by twenty of rest: at most 5 % of one core goes into builds


class GraphReplica:
    """An `EntityGraph`. `apply` and `reset` are short and may run on the event loop while `refresh` runs in a thread."""

    def __init__(self, *, pagerank_vertices: int = PAGERANK_VERTICES) -> None:
        self._pagerank_vertices = pagerank_vertices
        self._taking = threading.Lock()  # guards the ledger and what is pending
        self._building = threading.Lock()  # guards the builders: one refresh at a time
        self._ledger = Ledger()
        self._pending: set[tuple[str, str]] = (
            set()
        )  # ids alone: their contributions are parsed one by one as they are built
        self._from_scratch = False
        self._builders: dict[str, TenantBuilder] = {}
        self._snapshots: dict[str, ReplicaSnapshot] = {}
        self._nothing = TenantBuilder().build(0, pagerank_vertices)
        self._last_build_s = 0.0

    @property
    def refresh_interval_s(self) -> float:
        """How long to wait between refreshes, by the time that the last one took."""
        return max(REFRESH_S, REFRESH_SHARE * self._last_build_s)

    def apply(self, contributions: Iterable[Contribution]) -> None:
        """Take contributions in any order, any number of times: per id the highest revision stands, removal wins ties."""
        with self._taking:
            for contribution in contributions:
                if self._ledger.take(contribution):
                    self._pending.add((contribution.tenant, contribution.id))

    def reset(self) -> None:
        """Forget everything, without changing what `snapshot` returns until the next refresh."""
        with self._taking:
            self._ledger = Ledger()
            self._pending = set()
            self._from_scratch = True

    def refresh(self) -> bool:
        """Build and swap in new snapshots of tenants that changed. Returns whether anything was swapped."""
        with self._building:
            started = time.perf_counter()
            with self._taking:
                pending, self._pending, ledger = self._pending, set(), self._ledger
                from_scratch, self._from_scratch = self._from_scratch, False
            changed = self._hand_on(pending, ledger, from_scratch=from_scratch)
            fresh = {tenant: self._build(tenant) for tenant in changed}
            self._snapshots = self._snapshots | fresh  # one assignment: a reader sees all of it or none
            if fresh:
                self._last_build_s = time.perf_counter() - started
            return bool(fresh)

    def snapshot(self, tenant: str) -> ReplicaSnapshot:
        """Return the present snapshot; empty for an unknown tenant."""
        return self._snapshots.get(tenant, self._nothing)

    def save(self, path: Path, mark: str = "") -> None:
        """Keep what stands, with a mark (how far the topic was read), in one step. Raises OSError."""
        with self._taking:
            bodies = list(self._ledger.bodies())
        write_bodies(path, bodies, mark)

    def load(self, path: Path) -> str | None:
        """Take in what was kept and return its mark; None, and nothing taken, where the file is absent or damaged."""
        kept = read_bodies(path)
        if kept is None:
            return None
        bodies, mark = kept
        for start in range(0, len(bodies), LOAD_BATCH):
            self.apply(map(Contribution.model_validate_json, bodies[start : start + LOAD_BATCH]))
        return mark

    def _hand_on(self, pending: set[tuple[str, str]], ledger: Ledger, *, from_scratch: bool) -> list[str]:
        """Give the builders what is new and return the tenants that changed, sorted."""
        changed = {tenant for tenant, _ in pending}
        if from_scratch:
            changed |= self._builders.keys()
            self._builders = {}
        for tenant, contribution_id in pending:
            # a newer one that came since is as good: it is pending again and then changes nothing
            contribution = ledger.standing(tenant, contribution_id)
            self._builders.setdefault(tenant, TenantBuilder()).replace(contribution)
        return sorted(changed)

    def _build(self, tenant: str) -> ReplicaSnapshot:
        builder = self._builders.setdefault(tenant, TenantBuilder())
        return builder.build(self.snapshot(tenant).version + 1, self._pagerank_vertices)
