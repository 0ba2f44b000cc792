"""No name that is stored or sent changes by accident."""

from dataclasses import replace
from typing import Any

import pytest
from codelab.config import Settings
from codelab.protocol import incoming
from codelab.sessions import keys
from codelab.sessions.items import SummaryItem
from pydantic import create_model

from infra.observability.alarms import alarms
from tests.golden import GOLDEN, ON_PURPOSE, difference

NAMES, PLAYED = GOLDEN


def test_no_name_that_is_stored_or_sent_has_changed() -> None:
    """Those of the other file are compared where the conversations are played: `faults/test_fault_sweep.py`."""
    changed = difference(NAMES.path, NAMES.names())
    assert not changed, ON_PURPOSE.format(changed=changed)


# -- each of these renames something -----------------------------------------------------------------------------------


def a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "call_key", "TOOL_CALL#{}".format)


def an_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    row = SummaryItem.row

    def renamed(item: SummaryItem) -> dict[str, Any]:
        return {"quotes" if name == "said" else name: value for name, value in row(item).items()}

    monkeypatch.setattr(SummaryItem, "row", renamed)


def a_field_of_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    withdraw = incoming.FRAMES["withdraw"]
    changed = create_model(withdraw.__name__, __base__=withdraw, added=(str, ""))
    monkeypatch.setattr(incoming, "FRAMES", {**incoming.FRAMES, "withdraw": changed})
    monkeypatch.setattr("infra.docs.schemas.FRAMES", incoming.FRAMES)


def an_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    def renamed(functions: Any) -> Any:
        return (replace(it, name="sweep-late") if it.name == "sweep-lag" else it for it in alarms(functions))

    monkeypatch.setattr("infra.observability.template.alarms", renamed)


def a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.golden.names.read_settings", lambda environment: Settings(environment.get("TABLE", "")))


def test_each_changed_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once: finding the names takes seconds."""
    told = {
        a_key: ("-key CALL#x\n", "+key TOOL_CALL#x\n"),
        an_attribute: ("-item SUMMARY#000000007 said[]\n", "+item SUMMARY#000000007 quotes[]\n"),
        a_field_of_a_frame: ("+frame of the client withdraw added\n",),
        an_alarm: ("-alarm ${Stack}-sweep-lag\n", "+alarm ${Stack}-sweep-late\n"),
        a_variable: ("-setting TABLE_NAME\n", "+setting TABLE\n"),
    }
    for rename in told:
        rename(monkeypatch)
    changed = difference(NAMES.path, NAMES.names())
    assert [line for lines in told.values() for line in lines if line not in changed] == []


def test_a_changed_name_in_a_played_conversation_is_told() -> None:
    expected = PLAYED.path.read_text(encoding="utf-8")
    assert "played SESSION#*#* REGISTER owner S\n" in expected
    assert difference(PLAYED.path, expected.replace("REGISTER owner S", "REGISTER user S")) == (
        "--- played.txt\n+++ the code\n-played SESSION#*#* REGISTER owner S\n+played SESSION#*#* REGISTER user S\n"
    )
