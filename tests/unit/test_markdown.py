"""Documents are split by headings and paragraphs, and nothing of them is lost."""

import re

from hypothesis import given
from hypothesis import strategies as st

from compose.feeds.markdown import document_title, split_document, title_of

GUIDE = """# Guide

Welcome.

## Install

Run this:

```sh
# not a heading

make up
```

Docker
------

Later.
"""


def words(text):
    return re.sub(r"\s+", "", text)


def test_each_part_has_the_path_of_its_headings():
    parts = split_document(GUIDE)
    assert [(part.headings, part.text.split("\n")[0]) for part in parts] == [
        (("Guide",), "Welcome."),
        (("Guide", "Install"), "Run this:"),
        (("Guide", "Docker"), "Later."),
    ]
    assert title_of(parts[1], document_title(GUIDE, "file")) == "Guide › Install"


def test_a_fenced_block_is_not_cut_and_its_hashes_are_not_headings():
    part = split_document(GUIDE)[1]
    assert "```sh\n# not a heading\n\nmake up\n```" in part.text


def test_a_long_fenced_block_is_cut_only_when_it_alone_is_too_long():
    block = "```\n" + "\n".join(f"line {n}" for n in range(100)) + "\n```"
    assert [part.text for part in split_document(f"before\n\n{block}", limit=1000)] == [f"before\n\n{block}"]
    assert len(split_document(block, limit=300)) > 1


def test_a_single_huge_word_is_cut_not_refused():
    parts = split_document("x" * 300_000 + "MARK", limit=1_800)
    assert max(len(part.text) for part in parts) <= 1_800
    assert parts[-1].text.endswith("MARK")


def test_a_text_without_headings_is_titled_by_its_document():
    assert title_of(split_document("only words")[0], "notes") == "notes"


def test_front_matter_names_the_document_and_is_not_a_heading():
    text = '---\ntitle: "npm-audit"\nsection: 1\n---\n\n## Examples\n\nScan.\n'
    assert document_title(text, "file") == "npm-audit"
    parts = split_document(text)
    assert [part.headings for part in parts] == [(), ("Examples",)]
    assert title_of(parts[1], "npm-audit") == "npm-audit › Examples"


def test_several_top_headings_leave_the_file_its_name():
    assert document_title("# A\n\nx\n\n# B\n\ny\n", "notes") == "notes"


def test_white_space_has_no_parts():
    assert split_document(" \n\t\n") == []


@given(st.lists(st.text(alphabet="abc .\n", max_size=200), max_size=8).map("\n\n".join), st.integers(50, 400))
def test_no_word_is_lost_and_no_part_is_too_long(text, limit):
    parts = split_document(text, limit)
    assert words("".join(part.text for part in parts)) == words(text)
    assert all(len(part.text) <= limit for part in parts)
