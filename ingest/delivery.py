"""What becomes of a failure: wait, try again, or a dead letter. The table is complete (a test checks it).

==================  ===============================================================================================
verdict             meaning
==================  ===============================================================================================
``WAIT``            a part that everything needs is down (store, log, disk): the lane stands still and tries again,
                    without end, and polling goes on. Such an outage never turns events into dead letters.
``RETRY``           this one failed: again, with backoff, at most ``retry_attempts`` times; then a dead letter.
                    Where a stage can tell whether the part works for others, a failure counts only while it does.
                    An error that nobody thought of is here too: a bug costs one event, not the process.
``BURY``            the same again must fail the same way: a dead letter at once.
==================  ===============================================================================================
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeVar

import structlog

from ingest.metrics import IngestMetrics
from shared import errors

Value = TypeVar("Value")

BACKOFF_LIMIT_S = 5.0  # an outage is noticed as over within this time
_log = structlog.get_logger(__name__)


class Verdict(Enum):
    """What to do about an error."""

    WAIT = "wait"
    RETRY = "retry"
    BURY = "bury"


@dataclass(frozen=True)
class Rule:
    """A verdict and the constant name of the cause, for dead letters and metrics."""

    verdict: Verdict
    cause: str


RULES: dict[type[Exception], Rule] = {
    errors.InvalidInput: Rule(Verdict.BURY, "invalid-input"),
    errors.UnsupportedVersion: Rule(Verdict.BURY, "unsupported-version"),
    errors.TooLarge: Rule(Verdict.BURY, "too-large"),
    errors.InvalidToken: Rule(Verdict.BURY, "invalid-token"),
    errors.UnknownThing: Rule(Verdict.BURY, "unknown-thing"),
    errors.InputError: Rule(Verdict.BURY, "invalid-input"),
    errors.Unauthenticated: Rule(Verdict.BURY, "unauthenticated"),
    errors.BadSignature: Rule(Verdict.BURY, "bad-signature"),
    errors.Forbidden: Rule(Verdict.BURY, "forbidden"),
    errors.AccessError: Rule(Verdict.BURY, "forbidden"),
    errors.StoreUnavailable: Rule(Verdict.WAIT, "store-unavailable"),
    errors.LogUnavailable: Rule(Verdict.WAIT, "log-unavailable"),
    errors.EmbedderUnavailable: Rule(Verdict.RETRY, "embedder-unavailable"),
    errors.CacheUnavailable: Rule(Verdict.WAIT, "cache-unavailable"),
    errors.ModelChanged: Rule(Verdict.RETRY, "model-changed"),
    errors.NotReady: Rule(Verdict.WAIT, "not-ready"),
    errors.Overloaded: Rule(Verdict.WAIT, "overloaded"),
    errors.RateLimited: Rule(Verdict.WAIT, "rate-limited"),
    errors.Transient: Rule(Verdict.RETRY, "transient"),
    errors.DeadlineExceeded: Rule(Verdict.RETRY, "deadline-exceeded"),
    errors.UnknownModel: Rule(Verdict.WAIT, "unknown-model"),
    errors.AllSourcesLost: Rule(Verdict.RETRY, "all-sources-lost"),
    errors.ToolMissing: Rule(Verdict.RETRY, "tool-missing"),
    errors.FolderInUse: Rule(Verdict.WAIT, "folder-in-use"),
    errors.FolderReadOnly: Rule(Verdict.WAIT, "folder-read-only"),
    errors.FolderNewer: Rule(Verdict.WAIT, "folder-newer"),
    errors.DiskFull: Rule(Verdict.WAIT, "disk-full"),
    errors.PortInUse: Rule(Verdict.WAIT, "port-in-use"),
    errors.DataFolderError: Rule(Verdict.WAIT, "data-folder"),
    errors.CortexError: Rule(Verdict.RETRY, "error"),
    TimeoutError: Rule(Verdict.RETRY, "deadline-exceeded"),
    Exception: Rule(Verdict.RETRY, "unexpected-error"),
}


def rule_for(error: Exception) -> Rule:
    """Return the rule of the nearest class in the table."""
    return next(RULES[kind] for kind in type(error).__mro__ if kind in RULES)


class Hopeless(Exception):
    """This event cannot succeed here: why, and after how many attempts."""

    def __init__(self, cause: str, detail: str, attempts: int) -> None:
        self.cause = cause
        self.detail = detail
        self.attempts = attempts
        super().__init__(f"{cause} after {attempts}: {detail}")


def doomed(error: Exception) -> Hopeless:
    """Say why reading an input failed. Reading is pure, so whatever it raised it raises again: trying once is enough."""
    rule = rule_for(error)
    if not isinstance(error, errors.CortexError):
        _log.error("input.unexpected_error", cause=rule.cause, exc_info=error)
    return Hopeless(rule.cause, _describe(error), 1)


class Backoff:
    """Waits that double up to a limit, each shortened by up to half at random, so that lanes do not knock together."""

    def __init__(
        self, base_s: float, limit_s: float = BACKOFF_LIMIT_S, chance: Callable[[], float] | None = None
    ) -> None:
        self._base_s = base_s
        self._limit_s = limit_s
        self._chance: Callable[[], float] = chance or random.SystemRandom().random

    def delay_s(self, attempt: int) -> float:
        """Return the wait after the given attempt (1, 2, …), in (0, limit]."""
        full: float = min(self._base_s * 2.0 ** min(attempt - 1, 30), self._limit_s)
        return full * (1 - self._chance() / 2)


async def _always() -> bool:
    return True


class Watch(Protocol):
    """Is told what happens to one event; never waits and never fails."""

    def failed(self, attempts: int, cause: str) -> None:
        """So many attempts have failed, the last by this cause; it will be tried again."""
        ...

    def over(self) -> None:
        """It is tried no more: done, or given up."""
        ...


class _Unwatched:
    def failed(self, attempts: int, cause: str) -> None:
        """Nobody asks."""

    def over(self) -> None:
        """Nobody asks."""


_UNWATCHED = _Unwatched()


class Delivery:
    """Carries out the table for one stage."""

    def __init__(self, stage: str, attempts: int, backoff: Backoff, metrics: IngestMetrics) -> None:
        self.stage = stage
        self._attempts = attempts
        self._backoff = backoff
        self._metrics = metrics

    async def insist(self, work: Callable[[], Awaitable[Value]]) -> Value:
        """Do what everything depends on: WAIT errors are waited out, others raised."""
        failures = 0
        while True:
            try:
                return await work()
            except Exception as error:
                rule = rule_for(error)
                if rule.verdict is not Verdict.WAIT:
                    raise
                failures += 1
                await self._pause(rule, error, failures)

    async def attempt(
        self,
        work: Callable[[], Awaitable[Value]],
        healthy: Callable[[], Awaitable[bool]] = _always,
        watch: "Watch | None" = None,
    ) -> Value:
        """Do one event's work by the table. Raises Hopeless.

        ``healthy`` says whether the part that failed works for something else: while it does not, nothing counts.
        ``watch`` is told of each failure after which it is tried again, and when that is over.
        """
        watch = watch or _UNWATCHED
        try:
            return await self._attempt(work, healthy, watch)
        finally:
            watch.over()

    async def _attempt(
        self, work: Callable[[], Awaitable[Value]], healthy: Callable[[], Awaitable[bool]], watch: "Watch"
    ) -> Value:
        failures = counted = 0
        while True:
            try:
                return await work()
            except Hopeless:
                raise
            except Exception as error:
                rule = rule_for(error)
                failures += 1
                if rule.verdict is Verdict.BURY:
                    raise Hopeless(rule.cause, _describe(error), failures) from error
                if rule.verdict is Verdict.RETRY and (failures < self._attempts or await healthy()):
                    counted += 1
                    if counted >= self._attempts:
                        _log.error("stage.exhausted", stage=self.stage, cause=rule.cause, exc_info=error)
                        told = f"tried {failures} times; the last time: {_describe(error)}"
                        raise Hopeless(rule.cause, told, failures) from error
                watch.failed(failures, rule.cause)
                await self._pause(rule, error, failures)

    async def _pause(self, rule: Rule, error: Exception, failures: int) -> None:
        self._metrics.retried(self.stage, rule.cause)
        delay_s = self._backoff.delay_s(failures)
        _log.warning(
            "stage.retry",
            stage=self.stage,
            cause=rule.cause,
            error=type(error).__name__,
            failures=failures,
            delay_s=round(delay_s, 3),
        )
        await asyncio.sleep(delay_s)


def _describe(error: Exception) -> str:
    """One line that can be written anywhere: no control characters, no lone surrogates, bounded."""
    if isinstance(error, errors.CortexError):
        text = str(error)
    elif isinstance(error, TimeoutError):
        text = str(errors.DeadlineExceeded())
    else:
        text = f"an error that nobody foresaw; ingest's log has all of it ({type(error).__name__}: {error})"
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return " ".join("".join(char if char.isprintable() else " " for char in clean).split())[:1_000]
