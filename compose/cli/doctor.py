"""``cortex doctor``."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from compose.cli import exits
from compose.local.doctor import Doctor, Finding
from shared.settings import Settings

STYLES: Final[Mapping[str, str]] = {"ok": "green", "warn": "yellow", "fail": "bold red", "skip": "dim"}
ANSWER_S: Final = 5.0


def run_doctor(*, data_dir: str, port: int | None, url: str | None, as_json: bool) -> int:
    """Print every finding as it comes; exit 0 unless a check failed."""
    console = Console(highlight=False)
    try:
        settings = _settings(data_dir, port)
    except ValidationError as error:
        found = [_wrong_settings(error)]
    else:
        address = (url or f"http://127.0.0.1:{settings.http_port}").rstrip("/")
        found = asyncio.run(_look(settings, address, None if as_json else console))
    failed = [finding for finding in found if finding.state == "fail"]
    if as_json:
        print(json.dumps({"well": not failed, "findings": [finding.__dict__ for finding in found]}, ensure_ascii=False))
    else:
        words = f"{len(failed)} of {len(found)} checks failed" if failed else "all is well"
        console.print(Text(words, style="bold red" if failed else "bold green"))
    return exits.REFUSED if failed else exits.OK


def _settings(data_dir: str, port: int | None) -> Settings:
    options: dict[str, Any] = {"data_dir": Path(data_dir)}
    if port is not None:
        options |= {"http_port": port, "kafka_port": port + 1, "cache_port": port + 2, "ingest_port": port + 4}
    return Settings(**options)


def _wrong_settings(error: ValidationError) -> Finding:
    first = error.errors(include_url=False, include_input=False)[0]
    name = f"CORTEX_{str(first['loc'][0]).upper()}" if first["loc"] else "settings"
    return Finding("settings", "fail", f"{name}: {first['msg']}", f"correct or unset {name}")


async def _look(settings: Settings, address: str, console: Console | None) -> list[Finding]:
    found: list[Finding] = []
    with httpx.Client(base_url=address, timeout=ANSWER_S, trust_env=False) as client:

        def ask(path: str) -> tuple[int, Any] | None:
            try:
                response = client.get(path)
            except httpx.TransportError:
                return None
            try:
                return response.status_code, response.json()
            except ValueError:
                return response.status_code, None

        async for finding in Doctor(settings, ask, lambda: datetime.now(UTC)).findings():
            found.append(finding)
            if console is not None:
                _show(console, finding)
    return found


def _show(console: Console, finding: Finding) -> None:
    console.print(Text.assemble((f"{finding.state:<5}", STYLES[finding.state]), f"{finding.check:<13}", finding.detail))
    if finding.advice:
        console.print(Text(f"     {'':<13}→ {finding.advice}", style=STYLES[finding.state]))
