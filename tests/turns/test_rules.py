"""Remembered approvals and autonomy: what is asked about, and what was decided before."""

import json
from typing import Any

import pytest
from codelab.protocol.errors import ErrorCode
from codelab.sessions.keys import USER_RULES

from tests.cases import cases
from tests.turns.world import READ, RUN, Call, World, calling, refusal


def write(path: str, content: str = "1") -> Call:
    return ("write_file", {"path": path, "content": content})


WRITE = write("src/a.py")


def called(world: World, *wanted: Call, is_text: bool = False) -> list[str]:
    """A turn that makes these calls. Returns their ids."""
    if not world.register.turn_id or world.register.status == "idle":
        world.say()
    return world.answer("", *wanted, is_text=is_text)


def finish(world: World) -> None:
    """End the turn, whatever is open."""
    world.cancel()
    if world.register.phase == "running":
        world.fail(world.acquire(), "")


def asks(world: World, *wanted: Call, is_text: bool = False) -> list[str]:
    """Of each call: "asks", "runs" or "rejected". The turn is over then."""
    states = {"awaiting_approval": "asks", "executing": "runs"}
    found = [world.call_item(call_id)["state"] for call_id in called(world, *wanted, is_text=is_text)]
    finish(world)
    return [states.get(state, state) for state in found]


def remember(
    world: World, wanted: Call, decision: str, scope: str = "session", pattern: str | None = None, **fields: Any
) -> None:
    (call_id,) = called(world, wanted)
    try:
        world.decision(call_id, decision, remember={"scope": scope, "pattern": pattern}, **fields)
    finally:
        finish(world)


def remembering(wanted: Call, decision: str, *scope: str, **fields: Any) -> World:
    """A session with the rule of such a decision."""
    world = World()
    remember(world, wanted, decision, *scope, **fields)
    return world


# -- remembering -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["session", "user"])
def test_what_was_approved_once_is_not_asked_about_again(scope: str) -> None:
    world = remembering(WRITE, "approve", scope)
    assert asks(world, write("src/a.py", "other"), write("src/b.py")) == ["runs", "asks"]
    (frame,) = [frame for frame in world.of_type("tool_call") if frame.get("reason")]
    (rule,) = world.remembered()
    assert rule["rule_id"] in frame["reason"]
    about = {"scope": scope, "decision": "allow", "tool_name": "write_file", "agent": "universal"}
    assert about.items() <= rule.items()


def test_what_was_rejected_once_is_rejected_without_asking() -> None:
    world = remembering(WRITE, "reject", feedback="never")
    sent = len(world.of_type("tool_call"))
    (call_id,) = called(world, WRITE)
    assert world.call_item(call_id)["state"] == "rejected"
    assert len(world.of_type("tool_call")) == sent, "no client saw the call"
    result = json.loads(world.history()[-1][1])
    assert (result["status"], result["reason"]) == ("rejected", "rule")
    assert result["rule_id"] == world.remembered()[0]["rule_id"]
    assert world.register.phase == "dispatched", "the turn goes on"


def test_a_model_that_insists_on_what_is_denied_is_stopped() -> None:
    world = remembering(WRITE, "reject")
    world.say()
    for _ in range(6):
        if world.register.phase == "dispatched":
            world.answer("", WRITE)
    assert world.of_type("turn_end")[-1]["reason"] == "error"


def test_a_pattern_covers_paths_that_match() -> None:
    world = remembering(WRITE, "approve", pattern="src/**")
    assert asks(world, write("src/x/b.py"), write("b.py"), write("srcs/b.py")) == ["runs", "asks", "asks"]
    assert world.remembered()[0]["pattern"] == "src/**"


def test_all_paths_of_a_call_must_match_to_be_allowed_and_one_to_be_denied() -> None:
    def move(source: str, destination: str) -> Call:
        return ("move_file", {"from": source, "to": destination})

    world = remembering(move("src/a.py", "src/b.py"), "approve", pattern="src/**")
    moves = move("src/a.py", "src/c.py"), move("src/a.py", "a.py"), move("a.py", "src/a.py")
    assert asks(world, *moves) == ["runs", "asks", "asks"]
    remember(world, move("a.py", "secret/a.py"), "reject", pattern="secret/**")
    assert asks(world, move("secret/a.py", "src/c.py"), move("src/a.py", "secret/a.py")) == ["rejected", "rejected"]


def test_a_rule_is_about_one_tool_and_one_agent() -> None:
    world = remembering(WRITE, "approve", pattern="**")
    assert asks(world, ("delete_file", {"path": "src/a.py"})) == ["asks"]
    world.switch("coder")
    assert asks(world, WRITE) == ["asks"]
    world.switch("universal")
    assert asks(world, WRITE) == ["runs"]


def test_what_denies_wins() -> None:
    world = remembering(write("src/secret.py"), "reject")
    remember(world, WRITE, "approve", "user", pattern="src/**")
    assert asks(world, write("src/secret.py"), write("src/b.py")) == ["rejected", "runs"]


@cases(
    "path", ["src/secret.py", "./src/secret.py", "src//secret.py", "src\\secret.py", "SRC/Secret.PY", "src/secret.py."]
)
@cases("pattern", [None, "src/secret.*", "src/**"])
def test_another_spelling_of_a_path_does_not_escape_what_denies(path: str, pattern: str | None) -> None:
    world = remembering(write("src/secret.py"), "reject", pattern=pattern)
    assert asks(world, write(path)) == ["rejected"]


@cases("path", ["src\\a.py", "SRC/a.py", "src\\..\\a.py", "src/../a.py", "x\\src/a.py"])
def test_another_spelling_of_a_path_is_not_allowed(path: str) -> None:
    world = remembering(WRITE, "approve", pattern="src/**")
    assert asks(world, write(path)) != ["runs"]


def test_a_directory_is_denied_with_all_that_is_in_it() -> None:
    world = remembering(("delete_file", {"path": "secret/a"}), "reject", pattern="secret/**")
    assert asks(world, ("delete_file", {"path": "secret"})) == ["rejected"]


def test_a_patch_is_denied_by_the_paths_in_it_and_allowed_by_none() -> None:
    def patch(path: str) -> Call:
        return ("apply_patch", {"diff": f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+b\n"})

    world = remembering(patch("secret/a"), "reject", pattern="secret/**")
    assert asks(world, patch("secret/b"), patch("src/a")) == ["rejected", "asks"]
    error = refusal(lambda: remember(world, patch("src/a"), "approve", pattern="src/**"))
    assert (error.code, error.details["field"]) == (ErrorCode.INVALID_ARGUMENTS, "remember.pattern")


def test_a_tool_without_paths_is_remembered_by_its_arguments() -> None:
    def commit(message: str) -> Call:
        return ("git.commit", {"message": message})

    world = remembering(commit("one"), "approve")
    assert asks(world, commit("one"), commit("two")) == ["runs", "asks"]
    remember(world, commit("two"), "approve", pattern="**")
    assert asks(world, commit("three")) == ["runs"]


def test_an_edit_is_remembered_as_it_was_edited() -> None:
    world = remembering(WRITE, "edit", modified_arguments={"path": "docs/a.md", "content": "2"})
    assert asks(world, WRITE, write("docs/a.md")) == ["asks", "runs"]


# -- what is refused -------------------------------------------------------------------------------------------------


@cases("tool", ["run_command", "run_persistent"])
@cases("pattern", [None, "**"])
def test_commands_are_asked_about_every_time(tool: str, pattern: str | None) -> None:
    world = World()
    arguments = {"command": "make", **({"process_id": "p"} if tool == "run_persistent" else {})}
    (call_id,) = called(world, (tool, arguments))
    wish = {"scope": "session", "pattern": pattern}
    error = refusal(lambda: world.decision(call_id, "approve", remember=wish))
    assert (error.code, error.details["field"]) == (ErrorCode.INVALID_ARGUMENTS, "remember")
    assert world.call_item(call_id)["state"] == "awaiting_approval", "nothing was decided"
    assert world.remembered() == []
    world.decision(call_id, "reject", remember=wish)
    finish(world)
    assert asks(world, (tool, arguments)) == ["rejected"], "but a no may be remembered"


def test_a_stored_rule_that_allows_commands_is_ignored() -> None:
    world = remembering(WRITE, "approve", pattern="**")
    item = world.table["RULES"]
    rules = json.loads(item["rules"])
    for tool in ("run_command", "run_persistent"):
        rules.append({**rules[0], "tool": tool, "rule_id": tool})
    item["rules"] = json.dumps(rules)
    assert asks(world, RUN, ("run_persistent", {"command": "make", "process_id": "p"})) == ["asks", "asks"]


@cases("pattern", ["docs/**", "../**", "/src/**", "src/../**", "C:/**", "*.md"])
def test_a_pattern_must_cover_the_call_it_comes_with_and_stay_inside(pattern: str) -> None:
    world, (call_id,) = calling(WRITE)
    error = refusal(lambda: world.decision(call_id, "approve", remember={"scope": "user", "pattern": pattern}))
    assert (error.code, error.details["field"]) == (ErrorCode.INVALID_ARGUMENTS, "remember.pattern")
    assert world.call_item(call_id)["state"] == "awaiting_approval"


def test_there_is_a_bound_and_nothing_is_decided_beyond_it() -> None:
    world = World(max_steps=100)
    for n in range(50):
        remember(world, write(f"{n}.py"), "approve")
    (call_id,) = called(world, WRITE)
    error = refusal(lambda: world.decision(call_id, "approve", remember={"scope": "session"}))
    assert (error.code, error.details["field"]) == (ErrorCode.INVALID_ARGUMENTS, "remember")
    world.decision(call_id, "approve", remember={"scope": "user"})
    assert len(world.remembered()) == 51


def test_the_same_rule_is_kept_once_and_a_repeated_decision_changes_nothing() -> None:
    world, (first, second) = calling(WRITE, WRITE)
    for call_id in (first, second, first):
        world.decision(call_id, "approve", remember={"scope": "session"})
    assert len(world.remembered()) == 1
    error = refusal(lambda: world.decision(first, "approve", remember={"scope": "user"}))
    assert error.code is ErrorCode.INVALID_CALL_ID, "what is not remembered is not silently accepted"


# -- revoking, and what fails ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["session", "user"])
def test_a_revoked_rule_counts_no_more(scope: str) -> None:
    world = remembering(WRITE, "approve", scope)
    (rule,) = world.remembered()
    assert world.remembered("revoke", rule_id=rule["rule_id"]) == []
    assert asks(world, WRITE) == ["asks"]
    error = refusal(lambda: world.remembered("revoke", rule_id=rule["rule_id"]))
    assert (error.code, error.details["field"]) == (ErrorCode.INVALID_ARGUMENTS, "rule_id")


@pytest.mark.parametrize("scope", ["session", "user"])
def test_rules_that_were_read_before_a_change_are_not_relied_on(scope: str) -> None:
    world = remembering(WRITE, "approve", scope)
    world.say()
    lease = world.acquire()
    before = {key: world.table.get(key) for key in ("RULES", USER_RULES)}
    world.remembered("revoke", rule_id=world.remembered()[0]["rule_id"])
    world.known = before
    (call_id,) = world.answer("", WRITE, lease=lease)
    assert world.call_item(call_id)["state"] == "awaiting_approval"


def test_rules_that_were_taken_away_by_other_hands_are_gone() -> None:
    world = remembering(WRITE, "approve", "user")
    del world.table[USER_RULES]
    assert asks(world, WRITE) == ["asks"]
    remember(world, WRITE, "approve", "user")
    assert asks(world, WRITE) == ["runs"]


def test_a_step_relies_on_the_users_rules_not_having_changed() -> None:
    world = remembering(WRITE, "approve", "user")
    remember(world, write("b.py"), "approve", "session")
    called(world, write("b.py"))
    assert world.last.relies_on is None
    finish(world)
    called(world, WRITE)
    assert world.last.relies_on is not None
    assert world.last.relies_on.version == 1


@pytest.mark.parametrize("rules", ["no JSON", "[5]", '[{"rule_id": "x"}]'])
def test_rules_that_cannot_be_read_allow_nothing(rules: str) -> None:
    world = remembering(WRITE, "approve")
    world.table["RULES"]["rules"] = rules
    world.configure(autonomy="autonomous")
    assert asks(world, WRITE, READ) == ["asks", "asks"]
    assert refusal(world.remembered).code is ErrorCode.DATABASE_ERROR


# -- autonomy --------------------------------------------------------------------------------------------------------

BRANCHES: Call = ("git.branch", {"action": "list"})
PERSISTENT: Call = ("run_persistent", {"command": "make", "process_id": "p"})
ALL = (READ, BRANCHES, WRITE, PERSISTENT, RUN)


@cases(
    ("settings", "autonomy", "expected"),
    [
        ({}, None, "runs runs asks asks asks"),
        ({}, "balanced", "runs runs asks asks asks"),
        ({}, "manual", "runs runs asks asks asks"),
        ({}, "autonomous", "runs runs runs asks asks"),
        ({"hitl_enabled": False}, "balanced", "runs runs runs asks asks"),
        ({"hitl_enabled": False}, "manual", "runs runs asks asks asks"),
        ({"hitl_enabled": False}, "autonomous", "runs runs runs asks asks"),
        ({"hitl_dangerous_tools": "read_file"}, "balanced", "asks runs runs asks asks"),
        ({"hitl_dangerous_tools": "read_file"}, "manual", "asks runs asks asks asks"),
        ({"hitl_dangerous_tools": "read_file"}, "autonomous", "asks runs runs asks asks"),
        ({"hitl_dangerous_tools": "+read_file, write_to_file"}, "autonomous", "asks runs asks asks asks"),
    ],
)
def test_how_much_is_done_without_asking(settings: dict[str, Any], autonomy: str | None, expected: str) -> None:
    world = World(**settings)
    if autonomy:
        world.configure(autonomy=autonomy)
    assert asks(world, *ALL) == expected.split()


def test_an_autonomous_session_heeds_what_denies() -> None:
    world = remembering(WRITE, "reject")
    world.configure(autonomy="autonomous")
    assert asks(world, WRITE) == ["rejected"]


def test_a_rule_of_the_users_own_is_heeded_in_a_manual_session() -> None:
    world = remembering(WRITE, "approve")
    world.configure(autonomy="manual")
    assert asks(world, WRITE) == ["runs"]


# -- calls that the model has written as text ------------------------------------------------------------------------


@cases("settings", [{}, {"hitl_enabled": False}, {"hitl_dangerous_tools": "read_file"}])
@cases("autonomy", ["manual", "balanced", "autonomous"])
def test_a_call_in_a_text_asks_whatever_is_configured(settings: dict[str, Any], autonomy: str) -> None:
    world = World(**settings)
    world.configure(autonomy=autonomy)
    changing = (WRITE, ("delete_file", {"path": "a"}), PERSISTENT, RUN, fetch("https://example.com/"))
    for wanted in changing:
        assert asks(world, wanted, is_text=True) == ["asks"]
    assert asks(world, BRANCHES, is_text=True) == ["runs"], "it only reads"


@cases("scope", ["session", "user"])
@cases("pattern", [None, "src/**", "**"])
def test_a_call_in_a_text_asks_whatever_is_remembered(scope: str, pattern: str | None) -> None:
    world = World()
    remember(world, WRITE, "approve", scope, pattern)
    world.configure(autonomy="autonomous")
    assert asks(world, WRITE) == ["runs"]
    (call_id,) = called(world, WRITE, is_text=True)
    frame = world.of_type("tool_call")[-1]
    assert (frame["call_id"], frame["requires_approval"]) == (call_id, True)
    world.decision(call_id, "approve")
    assert world.call_item(call_id)["state"] == "executing"
    finish(world)
    assert asks(world, WRITE, is_text=True) == ["asks"], "also after it was approved"


def test_what_is_denied_is_denied_in_a_text_too() -> None:
    assert asks(remembering(WRITE, "reject"), WRITE, is_text=True) == ["rejected"]


# -- hosts -----------------------------------------------------------------------------------------------------------


def fetch(url: str) -> Call:
    return ("fetch_url", {"url": url})


@cases("autonomy", ["manual", "balanced", "autonomous"])
@cases("hitl_enabled", [True, False])
def test_a_fetch_asks_whatever_is_configured_until_its_host_is_allowed(autonomy: str, hitl_enabled: bool) -> None:
    world = World(hitl_enabled=hitl_enabled)
    world.register.settings["autonomy"] = autonomy
    page = fetch("https://docs.example/a")
    assert asks(world, page) == ["asks"]
    remember(world, page, "approve")
    assert asks(world, fetch("https://docs.example/b?c=d"), fetch("https://DOCS.example.:443/")) == ["runs", "runs"]
    others = ("https://other.example/", "http://docs.example/", "https://docs.example:8443/", "https://a.docs.example/")
    tricks = (
        "https://docs.example@other.example/",
        "https://docs.example\\\\@other.example/",
        "https://docs.example%2eevil.example/",
    )
    for url in (*others, *tricks):
        assert asks(world, fetch(url)) == ["asks"], url


def test_a_host_is_remembered_exactly_and_shown() -> None:
    world = World()
    (call_id,) = called(world, fetch("https://docs.example:8443/a"))
    assert world.of_type("tool_call")[-1]["remember"] == {
        "rule": "https://docs.example:8443",
        "scopes": ["session", "user"],
    }
    error = refusal(lambda: world.decision(call_id, "approve", remember={"scope": "session", "pattern": "**"}))
    assert (error.code, error.details["field"]) == (ErrorCode.INVALID_ARGUMENTS, "remember.pattern")
    finish(world)
    (call_id,) = called(world, fetch("https://ann@docs.example/"))
    assert world.of_type("tool_call")[-1]["remember"] is None
    refusal(lambda: world.decision(call_id, "approve", remember={"scope": "session"}))


def test_a_host_may_be_denied_and_so_may_all() -> None:
    world = remembering(fetch("https://evil.example/a"), "reject")
    assert asks(world, fetch("https://evil.example/b"), fetch("https://docs.example/")) == ["rejected", "asks"]
    remember(world, fetch("https://docs.example/"), "reject", pattern="**")
    assert asks(world, fetch("https://third.example/")) == ["rejected"]
