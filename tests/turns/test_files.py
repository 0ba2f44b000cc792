"""The files that the agent is shown with every question, on the pure core."""

from codelab.protocol.errors import ErrorCode
from codelab.sessions.items import FileItem

from tests.cases import cases
from tests.turns.world import READ, World, refusal


def files(world: World) -> dict[str, str | None]:
    """Path → content of what is stored; it must be what the register knows."""
    found = {sk: FileItem.of(item) for sk, item in world.table.items() if sk.startswith("FILE#")}
    assert {sk.removeprefix("FILE#"): file.size for sk, file in found.items()} == {
        digest: entry.size for digest, entry in world.register.files.items()
    }
    return {file.path: file.content for file in found.values()}


def test_a_file_is_added_replaced_and_removed() -> None:
    world = World()
    world.context("add_file", "/src/main.dart", "old")
    world.context("add_file", "./src/main.dart", "new")
    world.context("add_file", "README.md")
    assert files(world) == {"src/main.dart": "new", "README.md": None}
    world.context("remove_file", "src/main.dart")
    world.context("remove_file", "never there")
    assert files(world) == {"README.md": None}


def test_clear_empties_the_files_and_leaves_the_history() -> None:
    world = World()
    world.say("hello")
    world.answer("Hi")
    world.context("add_file", "a.py", "1")
    world.context("add_file", "b.py", "2")
    world.context("clear")
    assert files(world) == {}
    assert world.history() == [("user", "hello"), ("assistant", "Hi")]


@cases(
    ("path", "code"),
    [("../secret", ErrorCode.PATH_OUTSIDE_WORKSPACE), ("C:\\x", ErrorCode.PATH_OUTSIDE_WORKSPACE),
     ("", ErrorCode.INVALID_PATH), ("x" * 256, ErrorCode.INVALID_PATH)],
)  # fmt: skip
def test_a_path_that_leads_out_is_refused(path: str, code: str) -> None:
    error = refusal(lambda: World().context("add_file", path, "x"))
    assert (error.code, error.details["field"]) == (code, "data.path")


def test_another_sessions_id_is_refused_and_the_own_one_taken() -> None:
    world = World()
    error = refusal(lambda: world.context("add_file", "a.py", "1", session_id="s2"))
    assert (error.code, error.details["field"]) == (ErrorCode.INVALID_ARGUMENTS, "session_id")
    world.context("add_file", "a.py", "1", session_id="s1")


def test_files_are_bounded_in_size_number_and_together() -> None:
    world = World()
    assert refusal(lambda: world.context("add_file", "big", "x" * 300_001)).code is ErrorCode.FILE_TOO_LARGE
    for n in range(6):
        world.context("add_file", f"{n}", "x" * 300_000)
    assert refusal(lambda: world.context("add_file", "7", "x" * 300_000)).code is ErrorCode.CONTEXT_TOO_LARGE
    for n in range(6, 20):
        world.context("add_file", f"{n}")
    assert refusal(lambda: world.context("add_file", "one more")).code is ErrorCode.CONTEXT_TOO_LARGE
    world.context("add_file", "19", "known files may still change")
    assert len(files(world)) == 20


def test_what_a_tool_reads_or_writes_replaces_what_is_stale() -> None:
    world = World(hitl_enabled=False)
    world.context("add_file", "a.py", "old")
    world.context("add_file", "b.py")
    world.say()
    read, write, other = world.answer(
        "",
        ("read_file", {"path": "/a.py"}),
        ("write_file", {"path": "./b.py", "content": "written"}),
        ("read_file", {"path": "c.py"}),
    )
    world.result(read, result={"content": "read"})
    world.result(write, result={"success": True})
    world.result(other, result={"content": "not of the context"})
    assert files(world) == {"a.py": "read", "b.py": "written"}


def test_what_the_human_has_made_of_a_write_is_what_the_file_holds() -> None:
    world = World()
    world.context("add_file", "a.py", "old")
    world.say()
    (call_id,) = world.answer("", ("write_file", {"path": "a.py", "content": "the model's"}))
    world.decision(call_id, "edit", modified_arguments={"path": "a.py", "content": "the human's"})
    world.result(call_id, result={"success": True})
    assert files(world) == {"a.py": "the human's"}


def test_a_tool_that_failed_changes_no_file() -> None:
    world = World(hitl_enabled=False)
    world.context("add_file", "a.py", "old")
    world.say()
    failed, refused = world.answer(
        "", ("write_file", {"path": "a.py", "content": "1"}), ("write_file", {"path": "a.py", "content": "2"})
    )
    world.result(failed, error={"code": "PERMISSION_DENIED", "message": "no"})
    world.result(refused, result={"success": False})
    assert files(world) == {"a.py": "old"}


def test_the_content_of_a_patched_file_is_dropped_until_it_is_read_again() -> None:
    world = World(hitl_enabled=False)
    world.context("add_file", "src/a.py", "old")
    world.context("add_file", "b.py", "stays")
    world.say()
    diff = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-old\n+new\n"
    (call_id,) = world.answer("", ("apply_patch", {"diff": diff}))
    world.result(call_id, result={"success": True})
    assert files(world) == {"src/a.py": None, "b.py": "stays"}


def test_the_content_of_an_edited_file_is_dropped_too() -> None:
    world = World(hitl_enabled=False)
    world.context("add_file", "a.py", "old")
    world.say()
    edits = [{"old": "o", "new": "n"}]
    (call_id,) = world.answer("", ("edit_file", {"path": "a.py", "edits": edits}))
    world.result(call_id, result={"success": True})
    assert files(world) == {"a.py": None}


def test_a_part_of_a_file_is_not_taken_for_the_file() -> None:
    world = World()
    world.context("add_file", "a.py", "old")
    world.say()
    (call_id,) = world.answer("", ("read_file", {"path": "a.py", "offset": 2}))
    world.result(call_id, result={"content": "part", "first_line": 2, "total_lines": 2})
    assert files(world) == {"a.py": "old"}


def test_a_file_that_has_outgrown_the_bounds_becomes_a_reference() -> None:
    world = World()
    world.context("add_file", "a.py", "old")
    world.say()
    (call_id,) = world.answer("", READ)
    world.result(call_id, result={"content": "x" * 300_001})
    assert files(world) == {"a.py": None}


def test_a_windows_path_is_the_file_that_the_agent_knows() -> None:
    world = World()
    world.context("add_file", "src\\main.dart", "1")
    world.context("add_file", "src/main.dart", "2")
    assert files(world) == {"src/main.dart": "2"}
