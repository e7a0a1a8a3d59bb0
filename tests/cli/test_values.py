"""Options as values."""

from pathlib import Path

import pytest

from turngraph.cli.values import UsageError, default_database, thread_id, turn_settings


def test_settings_come_from_json_text_and_named_options() -> None:
    settings = turn_settings(
        ["max_rounds=3", "temperature=0.5", "permissions.send_note=allow", "model_profile.native_tools=false"],
        system_prompt="Be brief.",
        model=None,
    )
    assert (settings.max_rounds, settings.temperature) == (3, 0.5)
    assert settings.permissions == {"send_note": "allow"}
    assert settings.model_profile.native_tools is False
    assert (settings.system_prompt, settings.model) == ("Be brief.", None)


def test_a_text_field_takes_text_that_reads_as_json() -> None:
    settings = turn_settings(["system_prompt=42", "model=null", 'enabled_tools=["clock"]', "max_tokens=null"])
    assert (settings.system_prompt, settings.model) == ("42", "null")
    assert (settings.enabled_tools, settings.max_tokens) == (["clock"], None)


def test_a_named_option_wins_over_set() -> None:
    assert turn_settings(["max_rounds=3"], max_rounds=7).max_rounds == 7


@pytest.mark.parametrize(
    ("assignments", "says"),
    [
        (["max_round=3"], "max_rounds"),
        (["max_rounds=0"], "max_rounds: "),
        (["permission_mode=sometimes"], "permission_mode: "),
        (["max_rounds"], "key=value"),
        (["=3"], "key=value"),
        (["permissions=1", "permissions.x=allow"], "already given"),
    ],
)
def test_what_cannot_be_set_is_named(assignments: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        turn_settings(assignments)


@pytest.mark.parametrize("text", ["a", "t-1", "user:7/chat.2", "0" * 200])
def test_thread_ids_that_work(text: str) -> None:
    assert thread_id(text) == text


@pytest.mark.parametrize("text", ["", "-x", "a b", "a\nb", "x" * 201, "\x1b[2J"])
def test_thread_ids_that_do_not(text: str) -> None:
    with pytest.raises(UsageError):
        thread_id(text)


def test_where_the_database_is() -> None:
    home = Path.home()
    assert default_database({"TURNGRAPH_DB": "/x/y.sqlite"}) == Path("/x/y.sqlite")
    assert default_database({"TURNGRAPH_DB": "~/y.sqlite"}) == home / "y.sqlite"
    assert default_database({"XDG_DATA_HOME": "/data"}, "linux") == Path("/data/turngraph/threads.sqlite")
    assert default_database({}, "linux") == home / ".local/share/turngraph/threads.sqlite"
    assert "Application Support" in str(default_database({}, "darwin"))
    assert default_database({"LOCALAPPDATA": "/l"}, "win32") == Path("/l/turngraph/threads.sqlite")
