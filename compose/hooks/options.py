"""What a hook is told: by its command line, else by the environment, else by default. Read without argparse, which
would cost more than the question's way to the service.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

URL: Final = "http://127.0.0.1:8420"
BUDGET_MS: Final = 260
"""From the hook's first line to its end; an interpreter's start comes on top, and 300 ms is what a prompt may lose."""
TOKENS: Final = 1_500
NAMES: Final = {
    "--url": ("CORTEX_URL", "url"),
    "--token": ("CORTEX_TOKEN", "token"),
    "--tenant": ("CORTEX_TENANT", "tenant"),
    "--as": ("CORTEX_PRINCIPAL", "principal"),
    "--scope": ("CORTEX_SCOPE", "scope"),
    "--budget-ms": ("CORTEX_HOOK_MS", "budget_ms"),
    "--tokens": ("CORTEX_HOOK_TOKENS", "tokens"),
}
FLAGS: Final = {"--plain": "plain", "--verbose": "verbose"}


class Options(NamedTuple):
    """How a hook behaves. ``principal`` and ``tenant`` None: the token's; ``rest``: arguments that are no option."""

    url: str = URL
    token: str | None = None
    tenant: str | None = None
    principal: str | None = None
    scope: str | None = None
    budget_ms: int = BUDGET_MS
    tokens: int = TOKENS
    plain: bool = False
    verbose: bool = False
    rest: tuple[str, ...] = ()


def read_options(arguments: Sequence[str], environment: Mapping[str, str]) -> Options:
    """Read options; what is not understood is left out, for a hook never fails an agent."""
    values: dict[str, str | bool] = {}
    for variable, field in NAMES.values():
        if environment.get(variable):
            values[field] = environment[variable]
    rest = []
    waiting = iter(arguments)
    for argument in waiting:
        name, equals, value = argument.partition("=")
        if name in FLAGS:
            values[FLAGS[name]] = True
        elif name in NAMES:
            values[NAMES[name][1]] = value if equals else next(waiting, "")
        else:
            rest.append(argument)
    return _typed(values, tuple(rest))


def _typed(values: dict[str, str | bool], rest: tuple[str, ...]) -> Options:
    words = {key: value for key, value in values.items() if isinstance(value, str) and value}
    return Options(
        url=words.get("url", URL),
        token=words.get("token"),
        tenant=words.get("tenant"),
        principal=words.get("principal"),
        scope=words.get("scope"),
        budget_ms=_number(words.get("budget_ms"), BUDGET_MS, 1, 60_000),
        tokens=_number(words.get("tokens"), TOKENS, 50, 20_000),
        plain=bool(values.get("plain", False)),
        verbose=bool(values.get("verbose", False)),
        rest=rest,
    )


def _number(text: str | None, default: int, least: int, most: int) -> int:
    return min(max(int(text), least), most) if text and text.isascii() and text.isdigit() else default
