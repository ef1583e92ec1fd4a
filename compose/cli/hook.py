"""``cortex hook prompt`` and ``cortex hook learn``: the same as ``cortex-hook``, which starts quicker."""

import sys
import time

from compose.hooks.entry import run_hook
from compose.hooks.options import BUDGET_MS, TOKENS, URL, Options


def run_cli_hook(
    kind: str,
    *,
    url: str,
    token: str | None,
    tenant: str | None,
    principal: str | None,
    scope: str | None = None,
    tokens: int = TOKENS,
    budget_ms: int = BUDGET_MS,
    plain: bool = False,
    verbose: bool = False,
) -> None:
    """Run a hook on standard input. Does not return: the process ends with exit code 0."""
    options = Options(
        url=url or URL,
        token=token,
        tenant=tenant,
        principal=principal,
        scope=scope,
        tokens=tokens,
        budget_ms=budget_ms,
        plain=plain,
        verbose=verbose,
    )
    run_hook(kind, options, sys.stdin.buffer, time.monotonic())
