"""A deployment replaces the code in the middle of everything: sessions that older code has left are gone on with."""

import json

import pytest

from tests.faults.conversations import CONVERSATIONS
from tests.faults.recorded import FOLDER, STATES, Recorded
from tests.faults.stage import Stage
from tests.faults.verdict import complaints

NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_session_goes_on(limited_stage: Stage, name: str) -> None:
    recorded = Recorded.read(FOLDER / f"{name}.json")
    (conversation,) = [it for it in CONVERSATIONS if it.name == recorded.conversation]
    found = recorded.go_on(limited_stage)
    assert complaints(found) == []
    history = json.loads(json.dumps(found.history()))
    assert history[-2:] == [["user", "[[again]] message 99", []], ["assistant", "I am still here.", []]]
    if not conversation.loose:
        assert history[:-2] == recorded.history
        assert found.messages() == [*recorded.texts, "I am still here."]


def test_every_state_is_recorded() -> None:
    assert {Recorded.read(FOLDER / f"{name}.json").state for name in NAMES} == STATES.keys()
