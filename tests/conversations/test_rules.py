"""Remembered approvals, against the running system."""

from concurrent.futures import ThreadPoolExecutor

from tests.conftest import Open
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel

WRITE = call("write_file", path="docs/a.md", content="1")
OTHER = call("write_file", path="docs/b.md", content="1")


def test_a_remembered_approval_applies_until_it_is_revoked(ide: Open, model: ScriptedModel) -> None:
    session = ide("remembering", extensions=True)
    marker = model.script("write twice", Says("One.", [WRITE]), Says("Two.", [OTHER]), Says("Done."))
    wish = {"scope": "session", "pattern": "docs/**"}
    assert session.converse(marker, lambda _: {"success": True}, remember=wish) == "One.Two.Done."
    assert [frame["requires_approval"] for frame in session.of_type("tool_call")] == [True, False, False]
    (rule,) = session.request("rules", action="list")["rules"]
    assert (rule["pattern"], rule["decision"], rule["scope"]) == ("docs/**", "allow", "session")
    assert session.request("rules", action="revoke", rule_id=rule["rule_id"])["rules"] == []
    again = session.call_for(model.script("write again", Says("", [WRITE]), Says("Done.")))
    assert again["requires_approval"] is True


def test_rules_of_concurrent_sessions_are_all_kept(ide: Open, model: ScriptedModel) -> None:
    def remember(n: int) -> None:
        write = call("write_file", path=f"at-once/{n}.md", content="1")
        marker = model.script(f"at once {n}", Says("", [write]), Says("Done."))
        ide(f"at-once-{n}", extensions=True).converse(marker, str, remember={"scope": "user"})

    session = ide(extensions=True)
    try:
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(remember, range(6)))
        rules = session.request("rules", action="list")["rules"]
        covered = {rule["covers"] for rule in rules if rule["covers"].startswith("at-once/")}
        assert covered == {f"at-once/{n}.md" for n in range(6)}
    finally:  # the other tests have the same user
        for rule in session.request("rules", action="list")["rules"]:
            session.request("rules", action="revoke", rule_id=rule["rule_id"])
