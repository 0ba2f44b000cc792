"""context_update: a file is added, replaced or removed, and whoever asked is told what there is now."""

from tests.functions.recorder import POST, READ, TRANSACTION
from tests.functions.system import System


def test_adding_a_file_costs_one_read_one_transaction_and_the_answer(system: System) -> None:
    system.connect("c1", extensions=True)
    system.send("c1", "context_update", action="add_file", data={"path": "/src/main.dart", "content": "void main() {}"})
    assert system.aws.calls == [READ, TRANSACTION, POST]
    ((_, frame),) = system.aws.posts
    size = frame.pop("context_size")
    assert size > 0
    assert frame == {"type": "context_updated", "action": "add_file", "path": "/src/main.dart", "files": 1}
    (entry,) = system.item("REGISTER")["files"]
    assert system.item(f"FILE#{entry}")["content"] == "void main() {}"


def test_who_does_not_know_extensions_is_not_answered(system: System) -> None:
    system.connect("c1")
    system.send("c1", "context_update", action="clear")
    assert system.aws.posts == []


def test_a_removed_file_is_gone_from_the_table(system: System) -> None:
    system.connect("c1", extensions=True)
    system.send("c1", "context_update", action="add_file", data={"path": "a.py", "content": "1"})
    system.send("c1", "context_update", action="add_file", data={"path": "b.py"})
    system.send("c1", "context_update", action="remove_file", data={"path": "a.py"})
    assert len([sk for _, sk in system.all_keys() if sk.startswith("FILE#")]) == 1
    system.send("c1", "context_update", action="clear")
    assert [sk for _, sk in system.all_keys() if sk.startswith("FILE#")] == []
    ((_, frame),) = system.aws.posts
    assert (frame["files"], frame["context_size"]) == (0, 0)


def test_a_file_without_a_path_is_refused_by_name(system: System) -> None:
    system.connect("c1")
    system.send("c1", "context_update", action="add_file", data={"content": "1"})
    ((_, frame),) = system.aws.posts
    assert (frame["error_code"], frame["details"]["field"]) == ("MISSING_FIELD", "data.path")
