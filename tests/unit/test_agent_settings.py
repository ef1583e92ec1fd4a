"""Cortex in the settings of agents: there once, up to date, and gone again without a trace."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compose.hooks.settings import FILES, Wiring, add, command_of, read_settings, remove, write_settings
from shared.errors import InvalidInput

WIRING = Wiring("cortex-hook prompt", "cortex-hook learn", {"command": "cortex", "args": ["mcp"]})
CLAUDE, MCP, GEMINI, _ = FILES
THEIRS = {
    "model": "x",
    "hooks": {
        "Stop": [{"matcher": "*", "hooks": [{"type": "command", "command": "say done"}]}],
        "PreToolUse": [{"hooks": []}],
    },
    "mcpServers": {"other": {"command": "o"}},
}


def test_empty_settings_get_both_hooks():
    assert add({}, CLAUDE, WIRING, "settings.json") == {
        "hooks": {
            "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "cortex-hook prompt", "timeout": 2}]}],
            "Stop": [{"hooks": [{"type": "command", "command": "cortex-hook learn", "timeout": 10}]}],
        }
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.path)
def test_adding_twice_is_adding_once_and_removing_leaves_what_was_there(file):
    once = add(THEIRS, file, WIRING, file.path)
    assert once != THEIRS
    assert add(once, file, WIRING, file.path) == once
    assert remove(once, file) == THEIRS
    assert remove(THEIRS, file) == THEIRS


def test_a_changed_command_replaces_ours_where_it_stands_and_keeps_a_persons_time_limit():
    ours = {"type": "command", "command": "'/old place/cortex-hook' prompt --url http://old", "timeout": 7}
    value = {"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "theirs"}, ours]}]}}
    (group,) = add(value, CLAUDE, WIRING, "settings.json")["hooks"]["UserPromptSubmit"]
    assert group["hooks"][1] == {"type": "command", "command": "cortex-hook prompt", "timeout": 7}
    assert group["hooks"][0]["command"] == "theirs"


@pytest.mark.parametrize("text", ["{", "// a comment\n{}", '{"a": 1,}', "[]", '{"a": 1, "a": 2}', "null", "\ufeff{}"])
def test_what_could_not_be_given_back_as_it_was_is_refused(text):
    with pytest.raises(InvalidInput, match="left untouched"):
        read_settings(text, "settings.json")


@pytest.mark.parametrize("value", [{"hooks": []}, {"hooks": {"Stop": {}}}, {"hooks": None}])
def test_another_shape_than_the_agents_is_refused_and_removing_lets_it_be(value):
    with pytest.raises(InvalidInput, match="left untouched"):
        add(value, CLAUDE, WIRING, "settings.json")
    assert remove(value, CLAUDE) == value


def test_indentation_and_the_end_of_the_file_stay():
    before = '{\n\t"b": "é",\n\t"a": 1\n}'
    assert write_settings(read_settings(before, "x"), before) == before


def test_nothing_left_is_no_file():
    assert write_settings(remove(add({}, MCP, WIRING, "x"), MCP), "{}") is None


def test_a_hook_is_called_by_its_name_only_where_a_shell_finds_the_same_one(tmp_path):
    beside = str(tmp_path / "python")
    program = tmp_path / "cortex-hook"
    program.touch()
    options = ["--as", "person o'ana"]
    assert command_of("prompt", options, find=lambda _: str(program), beside=beside).startswith(
        "cortex-hook prompt --as"
    )
    assert command_of("prompt", [], find=lambda _: "/usr/bin/cortex-hook", beside=beside) == f"{program} prompt"
    assert command_of("prompt", [], find=lambda _: None, beside=beside) == f"{program} prompt"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5) | st.just("hooks") | st.just("mcpServers"), JSON, max_size=4))
def test_whatever_stands_there_survives_or_is_refused(value):
    try:
        added = add(value, GEMINI, WIRING, "settings.json")
    except InvalidInput:
        return
    removed = remove(json.loads(json.dumps(added)), GEMINI)
    kept = {key: inner for key, inner in value.items() if key not in {"hooks", "mcpServers"} or inner}
    assert removed == kept
