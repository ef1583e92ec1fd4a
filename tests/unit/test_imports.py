"""Each third-party client is imported in one place, so that it can be replaced there."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("schemas", "shared", "ingest", "query", "compose")
HOMES = {
    "aiokafka": ("shared/kafka.py", "shared/kafka_admin.py", "shared/kafka_reading.py"),
    "faststream": ("ingest/polling.py",),
    "igraph": ("shared/graphs/",),
    "redis": ("shared/caches/redis.py", "shared/boards/redis.py"),
    "onnxruntime": ("shared/embedders/",),
    "httpx": ("shared/embedders/endpoint.py", "shared/stores/weaviate/", "compose/"),
    "onnx": ("shared/embedders/",),
    "tokenizers": ("shared/embedders/",),
    "rapidfuzz": ("shared/likeness.py",),
    "snowballstemmer": ("shared/text.py",),
    "sqlite3": ("shared/stores/sqlite/", "shared/logs/", "shared/sqlite_files.py"),
    "standardwebhooks": ("query/webhooks.py",),
    "starlette": ("query/", "compose/local/ingest_health.py"),
    "sse_starlette": ("query/",),
    "uvicorn": ("compose/local/query_process.py", "compose/local/ingest_health.py"),
    "opentelemetry": ("shared/tracing.py",),
    "typer": ("compose/cli/",),
    "mcp": ("compose/mcp/",),
    "mcp_types": ("compose/mcp/",),
    "rich": ("compose/cli/",),
    "weaviate": ("shared/stores/weaviate/",),
}


def imports(path):
    """Yield the top-level names that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


FILES = {
    path.relative_to(ROOT).as_posix(): set(imports(path))
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
}


@pytest.mark.parametrize(("client", "homes"), HOMES.items())
def test_a_client_is_imported_only_at_home(client, homes):
    strangers = [
        name for name, imported in FILES.items() if client in imported and not name.startswith(homes or ("-",))
    ]
    assert strangers == []


def test_no_file_has_outgrown_its_purpose():
    long = {
        name: lines for name in FILES if (lines := len((ROOT / name).read_text(encoding="utf-8").splitlines())) > 420
    }
    assert long == {}


def test_hooks_of_agents_start_with_the_standard_library_alone():
    """A prompt waits for its hook: whatever the hook imports is paid at every prompt."""
    ours = {name: imported for name, imported in FILES.items() if name.startswith("compose/hooks/")}
    allowed = set(sys.stdlib_module_names) | {"compose"}
    strangers = {name: imported - allowed for name, imported in ours.items() if imported - allowed}
    assert strangers == {"compose/hooks/settings.py": {"shared"}}  # of `cortex init`, which no hook imports
