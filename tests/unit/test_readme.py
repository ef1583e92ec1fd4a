"""The README's links lead somewhere, and its first screen is where a newcomer looks."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_link_into_the_tree_leads_to_a_file_or_folder():
    links = re.findall(r"\]\((?!https?://|#)([^)]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_link_within_leads_to_a_heading():
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", head.lower()).replace(" ", "-")
        for head in re.findall(r"^#+ (.+)$", README, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", README)) <= anchors


def test_the_first_screen_has_the_two_commands_of_the_makefile():
    first_screen = README.splitlines()[:25]
    targets = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for target in ("up", "test"):
        assert any(line.strip().startswith(f"make {target}") for line in first_screen)
        assert target in targets
