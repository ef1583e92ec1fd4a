"""Shell blocks of documents become commands with the words that lead to them; prose and other code do not."""

from datetime import UTC, datetime

import pytest

from compose.feeds.commands import find_commands
from compose.feeds.documents import Document, parse_document

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def commands(text):
    document = parse_document(text.encode(), "run.md", NOW)
    assert isinstance(document, Document)
    return [command.text for command in find_commands(document)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Run\n\nStart it:\n\n```bash\nmake up\n```\n", ["Start it:\n\nmake up"]),
        ("# Run\n\n~~~console\n$ make up\nserving\n~~~\n", ["$ make up\nserving"]),
        ("# Run\n\nThen:\n\n    make up   # serves\n    curl -N http://localhost\n", ["Then:\n\nmake up   # serves\ncurl -N http://localhost"]),
        ("# Run\n\n```\nCORTEX_PORT=1 .venv/bin/cortex up\n```\n", ["CORTEX_PORT=1 .venv/bin/cortex up"]),
        ("# Run\n\n    curl http://localhost -d '{\n      \"a\": 1}'\n", ["curl http://localhost -d '{\n  \"a\": 1}'"]),
        ("# Run\n\n```bash\nmake up\n\nmake test\n```\n", ["make up\n\nmake test"]),
        ("# Run\n\n```sh\nmake up\n```\n\n```sh\nmake up\n```\n", ["make up"]),
    ],
)  # fmt: skip
def test_shell_blocks_are_commands(text, expected):
    assert commands(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "# Run\n\n```python\nmake = 1\n```\n",
        "# Run\n\n```\nthe answer is 42\n```\n",
        "# Run\n\n    An indented quotation of somebody.\n",
        "          Licensed under the Apache License, Version 2.0\n          you may not use this file\n",
        "# Run\n\nRun `make up` to start.\n",
        "# Run\n\n```json\n{}\n```\n",
    ],
)
def test_prose_and_other_code_are_no_commands(text):
    assert commands(text) == []


def test_a_long_lead_keeps_its_last_sentences():
    (text,) = commands("# Run\n\n" + "A long story of it. " * 60 + "At last, start it:\n\n    make up\n")
    lead = text.partition("\n\n")[0]
    assert lead.startswith("A long story")
    assert lead.endswith("At last, start it:")
    assert len(lead) <= 400
