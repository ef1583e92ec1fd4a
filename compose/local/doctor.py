"""Checks of each part, with the service up or down, and what to do about each that fails."""

import asyncio
import importlib.metadata
import re
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import numpy as np

from compose.local.folder import holder_of, read_version
from compose.local.migrations import CURRENT
from compose.local.ports import free_port
from query.access import read_tokens
from shared.caches.redis import RedisCache
from shared.clock import SystemClock
from shared.embedders.endpoint import EndpointEmbedder
from shared.embedders.minilm import MiniLMEmbedder
from shared.errors import CortexError
from shared.kafka import Publisher
from shared.settings import EmbeddingEndpoint, Settings
from shared.sqlite_files import engine, faults_of, largest, last, version_of
from shared.stores.opening import open_reader

State = Literal["ok", "warn", "fail", "skip"]
Ask = Callable[[str], tuple[int, Any] | None]
"""Asks the service: the path to (status, JSON), or None when nothing answers."""

PYTHON: Final = (3, 11)
DISTRIBUTION: Final = "cortex-knowledge"
REQUIRED: Final = re.compile(r"[A-Za-z0-9._-]+")
LEAST_MB: Final = 64
SHORT_MB: Final = 1_024  # a day's worth of a busy team, with the backup's draft beside it
WHOLE_CHECK_MB: Final = 200  # a served journal waits while it is read; of this size for about half a second
BROKER_S: Final = 5.0
CACHE_S: Final = 1.0
STORE_S: Final = 5.0
NEAR: Final = ("The deploy freeze starts on Friday.", "No releases from the end of the week on.", 0.50)
FAR: Final = ("The deploy freeze starts on Friday.", "The lighthouse is painted white.", -0.05)
COSINE_TOLERANCE: Final = 0.06  # between the two variants of the model
CLOCK_S: Final = 5.0
RELEASED: Final = datetime(2026, 1, 1, tzinfo=UTC)  # no clock of a machine that runs this can rightly be before it


@dataclass(frozen=True)
class Finding:
    """What a check found, and, where it is not well, what to do."""

    check: str
    state: State
    detail: str
    advice: str = ""


class Doctor:
    """Looks at one installation. ``ask`` reaches the service, if it runs."""

    def __init__(self, settings: Settings, ask: Ask, now: Callable[[], datetime]) -> None:
        self._settings = settings
        self._ask = ask
        self._now = now
        self._folder = settings.data_dir.absolute()
        self._holder = holder_of(self._folder / "lock")
        self._health = ask("/healthz")

    @property
    def is_served(self) -> bool:
        """Whether a Cortex runs on this folder or answers at the address."""
        return self._holder is not None or self._health is not None

    async def findings(self) -> AsyncIterator[Finding]:
        """Yield the checks in the order in which the parts stand on each other; none ends the others."""
        machine = (self.python, self.packages, self.sqlite, self.clock, self.tokens)
        for check in (*machine, self.folder, self.space, self.journal, self.knowledge, self.ports):
            for finding in _told(check):
                yield finding
        yield await self.embedder()
        yield await self.broker()
        yield await self.cache()
        if self._settings.store == "weaviate":
            yield await self.weaviate()
        for finding in _told(self.service):
            yield finding

    def python(self) -> Iterator[Finding]:
        """The interpreter."""
        found = ".".join(str(part) for part in sys.version_info[:3])
        if sys.version_info < PYTHON:
            yield Finding("python", "fail", found, "install Python 3.11 or later, then: make up PYTHON=python3.11")
        else:
            yield Finding("python", "ok", found)

    def packages(self) -> Iterator[Finding]:
        """What has to be installed."""
        try:
            release = importlib.metadata.version(DISTRIBUTION)
            wanted = importlib.metadata.requires(DISTRIBUTION) or []
        except importlib.metadata.PackageNotFoundError:
            yield Finding("packages", "warn", "Cortex itself is not installed: a bare checkout", "run: make up")
            return
        names = sorted({match[0] for line in wanted if "extra ==" not in line and (match := REQUIRED.match(line))})
        missing = [name for name in names if not _is_installed(name)]
        if missing:
            yield Finding("packages", "fail", f"not installed: {', '.join(missing)}", "run: make clean && make up")
        else:
            yield Finding("packages", "ok", f"Cortex {release}, and all {len(names)} that it needs")

    def sqlite(self) -> Iterator[Finding]:
        """The library below journal and store."""
        version, good = engine()
        advice = "" if good else "use a Python whose SQLite is 3.38 or later with FTS5, e.g. that of uv or conda"
        yield Finding("sqlite", "ok" if good else "fail", version, advice)

    def clock(self) -> Iterator[Finding]:
        """The machine's clock, against the release and against what was recorded last."""
        now = self._now()
        if now < RELEASED:
            yield Finding("clock", "fail", f"it says {now.isoformat(timespec='seconds')}", "set the clock, e.g. by NTP")
            return
        newest = None
        if self._settings.journal_path.exists():
            newest = last(self._settings.journal_path, "event", "recorded_at", "number")
        ahead = timedelta(0)
        if newest is not None:
            ahead = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=newest) - now
        if ahead.total_seconds() > CLOCK_S:
            yield Finding(
                "clock", "warn", f"the last event was recorded {ahead.total_seconds():.0f} s ahead of now",
                "the clock has gone back: times of new events stand still until it has caught up; check NTP",
            )  # fmt: skip
        else:
            yield Finding("clock", "ok", now.isoformat(timespec="seconds"))

    def tokens(self) -> Iterator[Finding]:
        """Who may come in."""
        path = self._settings.tokens_file
        if path is None:
            yield Finding("tokens", "ok", "none: whoever reaches this machine's loopback is trusted")
            return
        yield Finding("tokens", "ok", f"{len(read_tokens(path))} in {path}")

    def folder(self) -> Iterator[Finding]:
        """The data folder and its version."""
        if not self._folder.exists():
            yield Finding("data folder", "ok", f"{self._folder} is not there yet; cortex up makes it")
            return
        version = read_version(self._folder / "VERSION")
        used = f", in use by process {self._holder}" if self._holder else ""
        if version is None and self._settings.kafka_bootstrap:
            yield Finding("data folder", "ok", f"{self._folder}, without VERSION, which only cortex up writes")
        elif version is None:
            yield Finding(
                "data folder", "warn", f"{self._folder} has no VERSION", "is this the folder that you mean? --data-dir"
            )
        elif version > CURRENT.version:
            advice = "start the release that wrote it, or choose another folder with --data-dir"
            yield Finding("data folder", "fail", f"schema {version}, this release knows {CURRENT.version}", advice)
        elif version < CURRENT.version:
            advice = "take a backup with the release that wrote it; the next cortex up brings it up"
            yield Finding("data folder", "warn", f"schema {version}, this release writes {CURRENT.version}", advice)
        else:
            yield Finding("data folder", "ok", f"{self._folder}, schema {version}{used}")

    def space(self) -> Iterator[Finding]:
        """Room on the disk."""
        place = next(path for path in (self._folder, *self._folder.parents) if path.exists())
        free = shutil.disk_usage(place).free // 2**20
        if free < LEAST_MB:
            yield Finding("disk", "fail", f"{free} MB free", "free some space: events are refused until then (507)")
        elif free < SHORT_MB:
            yield Finding("disk", "warn", f"{free} MB free", "free some space, or move the folder: CORTEX_DATA_DIR")
        else:
            yield Finding("disk", "ok", f"{free} MB free")

    def journal(self) -> Iterator[Finding]:
        """The record of truth."""
        path = self._settings.journal_path
        if not path.exists():
            yield Finding("journal", "skip", "nothing was ever kept here")
            return
        size = path.stat().st_size / 1e6
        events = largest(path, "event", "number")
        words = f"{max(events, 0)} events, {size:.1f} MB, schema {version_of(path)}"
        if self.is_served and size > WHOLE_CHECK_MB:
            yield Finding("journal", "ok", f"{words}; too large to be read whole while it is served")
            return
        faults = faults_of(path)
        if faults:
            yield Finding("journal", "fail", faults[0], "stop Cortex and restore: cortex restore BACKUP --data-dir NEW")
        else:
            yield Finding("journal", "ok", words)

    def knowledge(self) -> Iterator[Finding]:
        """Each tenant's knowledge file: whole, and not ahead of the journal."""
        files = sorted(self._settings.knowledge_dir.glob("*.db"))
        if not files and self._settings.store == "weaviate":
            return  # its own check tells of it
        if not files:
            yield Finding("store", "skip", "no tenant has a knowledge file yet")
        journal = self._settings.journal_path
        for path in files:
            name = f"store {path.stem}"
            faults = faults_of(path)
            if faults:
                advice = (
                    f"stop Cortex, move {path.name} and its -wal and -shm away, start: it is rebuilt from the journal"
                )
                yield Finding(name, "fail", faults[0], advice)
                continue
            reached = largest(path, "watermark", "number")  # before the journal's, which only grows
            kept = largest(journal, "event", "number") if journal.exists() else -1
            if reached > kept:
                advice = (
                    f"the journal is older than {path.name}: restore both from one backup, or move {path.name} away"
                )
                yield Finding(name, "fail", f"stored up to {reached}, the journal ends at {kept}", advice)
                continue
            size = path.stat().st_size / 1e6
            yield Finding(
                name, "ok", f"whole, {size:.1f} MB, schema {version_of(path)}, stored up to {reached} of {kept}"
            )

    def ports(self) -> Iterator[Finding]:
        """Whether Cortex could listen: only asked while it does not."""
        settings = self._settings
        if self.is_served:
            yield Finding("ports", "skip", "Cortex runs")
            return
        wanted = {"http_port": (settings.host, settings.http_port), "kafka_port": ("127.0.0.1", settings.kafka_port)}
        if settings.redis_url is None:
            wanted["cache_port"] = ("127.0.0.1", settings.cache_port)
        wanted["ingest_port"] = ("127.0.0.1", settings.ingest_port)
        taken = []
        for setting, (host, port) in wanted.items():
            try:
                free_port(host, port, setting)
            except CortexError as error:
                taken.append(Finding("ports", "fail", str(error), "choose others: cortex up --port 9420"))
        yield from taken
        if not taken:
            yield Finding("ports", "ok", f"{', '.join(str(port) for _, port in wanted.values())} are free")

    async def embedder(self) -> Finding:
        """Whether the model loads and knows two sentences that mean the same from two that do not."""
        if self._settings.own_endpoint is not None and self._settings.embedder == "endpoint":
            return await _endpoint_finding(self._settings.own_endpoint)
        if self._settings.embedder != "minilm":
            return Finding("embedder", "skip", f"{self._settings.embedder} is set, which has no meaning")
        advice = "reinstall the model: make clean && make up"
        begun = time.monotonic()
        try:
            embedder = await MiniLMEmbedder.open(1)
            try:
                found = [
                    (float(np.dot(await embedder.embed_query(one), await embedder.embed_query(other))), expected)
                    for one, other, expected in (NEAR, FAR)
                ]
            finally:
                await embedder.close()
        except CortexError as error:
            return Finding("embedder", "fail", str(error), advice)
        words = ", ".join(f"{cosine:.2f} for {expected:.2f}" for cosine, expected in found)
        if any(abs(cosine - expected) > COSINE_TOLERANCE for cosine, expected in found):
            return Finding("embedder", "fail", f"wrong cosines: {words}", advice)
        return Finding("embedder", "ok", f"{embedder.model}, cosines {words}, {time.monotonic() - begun:.1f} s")

    async def broker(self) -> Finding:
        """Whether Kafka's protocol is spoken where it should be."""
        settings = self._settings
        address = settings.kafka_bootstrap or f"127.0.0.1:{settings.kafka_port}"
        if not self.is_served and settings.kafka_bootstrap is None:
            return Finding("broker", "skip", "Cortex is down, and the broker with it")
        try:
            publisher = await Publisher.open(address, deadline_s=BROKER_S)
            await publisher.close(BROKER_S)
        except CortexError as error:
            advice = "see log/ingest.log in the data folder; cortex up starts it anew" if self.is_served else ""
            return Finding("broker", "fail", str(error), advice or "start the brokers, or mend CORTEX_KAFKA_BOOTSTRAP")
        return Finding("broker", "ok", f"answers at {address}")

    async def cache(self) -> Finding:
        """Whether the cache answers; without it answers are slower and the live feed is still."""
        settings = self._settings
        if not self.is_served and settings.redis_url is None:
            return Finding("cache", "skip", "Cortex is down, and the cache with it")
        cache = RedisCache(settings.cache_url, timeout_s=CACHE_S)
        try:
            answers = await cache.ping()
        finally:
            await cache.close()
        if answers:
            return Finding("cache", "ok", "answers")
        return Finding("cache", "warn", "does not answer: questions go on without it", "see log/ in the data folder")

    async def weaviate(self) -> Finding:
        """Whether Weaviate answers at both of its addresses: without it nothing is stored, and no question answered."""
        advice = "start it, or mend CORTEX_WEAVIATE_URL and CORTEX_WEAVIATE_GRPC"
        try:
            reader = open_reader(self._settings, SystemClock(), threads=1)
            try:
                async with asyncio.timeout(STORE_S):
                    await reader.ping()
                    found = await reader.tenants()
            finally:
                await reader.close()
        except TimeoutError:
            return Finding("store", "fail", f"Weaviate did not answer within {STORE_S:g} s", advice)
        except CortexError as error:
            return Finding("store", "fail", str(error).strip(" .:"), advice)
        return Finding("store", "ok", f"Weaviate answers, {len(found)} tenants")

    def service(self) -> Iterator[Finding]:
        """Whether questions and events are taken."""
        if self._health is None:
            if self._holder is None:
                how = "cortex up" if self._settings.kafka_bootstrap is None else "cortex query; or give its --url"
                yield Finding("service", "skip", f"nothing answers at the address; start it: {how}")
            else:
                words = f"process {self._holder} holds the folder, but nothing answers at the address"
                yield Finding("service", "fail", words, "give its address with --url; or it is still starting: wait")
            return
        if self._holder is None and self._settings.kafka_bootstrap is None:  # in a cluster nothing holds a folder
            words = "what answers at the address runs on another folder than this"
            yield Finding("service", "warn", words, "give its folder with --data-dir")
        ready = self._ask("/readyz")
        status, told = ready if ready is not None else (0, {})
        if status == 200:
            yield Finding("service", "ok", "takes questions and events")
            return
        reasons = told.get("reasons", {}) if isinstance(told, dict) else {}
        words = "; ".join(f"{part}: {why}" for part, why in sorted(reasons.items())) or f"status {status}"
        yield Finding(
            "service", "fail", f"not ready: {words}", "wait a moment; then see log/query.log in the data folder"
        )


async def _endpoint_finding(endpoint: EmbeddingEndpoint) -> Finding:
    """Whether the endpoint embeds with the length that is configured."""
    begun = time.monotonic()
    embedder = EndpointEmbedder(endpoint)
    try:
        await embedder.embed_query(NEAR[0])
    except CortexError as error:
        return Finding("embedder", "fail", str(error), "start the endpoint, or mend the CORTEX_EMBEDDER_ settings")
    finally:
        await embedder.close()
    return Finding("embedder", "ok", f"{embedder.model} answers, {time.monotonic() - begun:.1f} s")


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _told(check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Run a check; a typed error of a part is its finding, not the doctor's end."""
    try:
        yield from check()
    except (CortexError, OSError) as error:
        yield Finding(check.__name__, "fail", str(error), "mend what is named, or restore: cortex restore BACKUP")
