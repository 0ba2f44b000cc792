"""A deployment replaces the code in the middle of everything: sessions that older code has left are gone on with."""

import json

import pytest

from tests.faults.conversations import CONVERSATIONS
from tests.faults.recorded import FOLDER, STATES, Recorded
from tests.faults.stage import Stage
from tests.faults.verdict import complaints
from tests.sampling import sampled

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


@pytest.mark.parametrize("name", sampled([*NAMES]))
def test_a_session_with_attributes_of_newer_code_goes_on(limited_stage: Stage, name: str) -> None:
    """Code that goes back to an older version ignores what the newer one has added, and leaves it there."""
    recorded = Recorded.read(FOLDER / f"{name}.json")
    added = {"of_a_newer_version": {"M": {"n": {"N": "1"}}}}
    found = recorded._replace(items=[{**item, **added} for item in recorded.items]).go_on(limited_stage)
    assert complaints(found) == []
    (register,) = [item for item in limited_stage.items() if item["sk"] == {"S": "REGISTER"}]
    assert register.items() >= added.items()


def test_every_state_is_recorded() -> None:
    assert {Recorded.read(FOLDER / f"{name}.json").state for name in NAMES} == STATES.keys()
