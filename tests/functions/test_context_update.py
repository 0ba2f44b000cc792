"""context_update: a file is added, replaced or removed, and whoever asked is told what there is now."""

from tests.fakes.aws.recorder import POST, READ, TRANSACTION
from tests.functions.system import System


def test_adding_a_file_costs_one_read_one_transaction_and_the_answer(extended: System) -> None:
    extended.send(
        "c1", "context_update", action="add_file", data={"path": "/src/main.dart", "content": "void main() {}"}
    )
    assert extended.aws.calls == [READ, TRANSACTION, POST]
    ((_, frame),) = extended.aws.posts
    size = frame.pop("context_size")
    assert size > 0
    assert frame == {"type": "context_updated", "action": "add_file", "path": "/src/main.dart", "files": 1}
    (entry,) = extended.item("REGISTER")["files"]
    assert extended.item(f"FILE#{entry}")["content"] == "void main() {}"


def test_who_does_not_know_extensions_is_not_answered(connected: System) -> None:
    connected.send("c1", "context_update", action="clear")
    assert connected.aws.posts == []


def test_a_removed_file_is_gone_from_the_table(extended: System) -> None:
    extended.send("c1", "context_update", action="add_file", data={"path": "a.py", "content": "1"})
    extended.send("c1", "context_update", action="add_file", data={"path": "b.py"})
    extended.send("c1", "context_update", action="remove_file", data={"path": "a.py"})
    assert len([sk for _, sk in extended.all_keys() if sk.startswith("FILE#")]) == 1
    extended.send("c1", "context_update", action="clear")
    assert [sk for _, sk in extended.all_keys() if sk.startswith("FILE#")] == []
    ((_, frame),) = extended.aws.posts
    assert (frame["files"], frame["context_size"]) == (0, 0)
