"""Instances in SWE-bench's form: a file with an object in each line, and clones of their repositories.

Used are `instance_id`, `repo`, `base_commit`, `problem_statement`, `patch`, `test_patch`, `FAIL_TO_PASS` and
`PASS_TO_PASS` (lists, or text that is one). The tests must be pytest's, and what they import must be on this machine:
run the oracle first.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evals import harbor, rows
from evals.loaders.graders import pytest_files
from evals.loaders.left_out import LeftOut


def swe_bench(lines: Path, repositories: Path, folder: Path) -> Iterator[Path | LeftOut]:
    """Write each instance below `folder`. repositories: has the clone of `owner/name` as `owner__name` or `name`.

    Raises harbor.TaskError.
    """
    for number, instance in enumerate(rows.given(lines)):
        name = harbor.folder_name(str(instance.get("instance_id") or "instance"), number)
        try:
            yield _instance(instance, repositories, folder / name)
        except (KeyError, ValueError, OSError, UnicodeDecodeError) as error:
            yield LeftOut(name, repr(error))


def _instance(instance: Mapping[str, Any], repositories: Path, folder: Path) -> Path:
    tests_to_pass = [*_names(instance["FAIL_TO_PASS"]), *_names(instance.get("PASS_TO_PASS") or [])]
    if foreign := [name for name in tests_to_pass if "::" not in name]:
        raise ValueError(f"{foreign[0]!r} is no name of pytest's")
    owner, _, name = str(instance["repo"]).rpartition("/")
    clone = next((path for path in (repositories / f"{owner}__{name}", repositories / name) if path.exists()), None)
    if clone is None:
        raise ValueError(f"there is no clone of {instance['repo']} in {repositories}")
    with tempfile.TemporaryDirectory(prefix="swe-bench-") as temporary:
        tree = Path(temporary)
        _extract(clone, str(instance["base_commit"]), tree)
        solution = _patched(tree, str(instance["patch"]))
        tests = _patched(tree, str(instance["test_patch"]))
    harbor.write(
        folder,
        f"swe-bench/{folder.name}",
        str(instance["problem_statement"]),
        metadata={"kind": "issue", "language": "en"},
        files={},
        tests=pytest_files(
            tests, paths=sorted({name.partition("::")[0] for name in tests_to_pass}), wanted=tests_to_pass
        ),
        solution=solution,
        environment={"PYTHONPATH": "/app:/app/src"},
        agent_timeout_s=1800,
        verifier_timeout_s=900,
    )
    _extract(clone, str(instance["base_commit"]), folder / "environment" / "files")
    return folder


def _names(field: Any) -> list[str]:
    names = json.loads(field) if isinstance(field, str) else field
    if not isinstance(names, list):
        raise ValueError(f"{field!r} is no list of tests")
    return [str(name) for name in names]


def _extract(clone: Path, commit: str, folder: Path) -> None:
    """The files of a commit. Raises ValueError."""
    if not commit.isalnum():
        raise ValueError(f"{commit!r} is no commit")
    archive = _run(["git", "-C", str(clone), "archive", "--format=tar", commit])
    _run(["tar", "-x", "-C", str(folder)], archive)


def _patched(tree: Path, patch: str) -> dict[str, str]:
    """The files that a patch changes, as they are then; `tree` stays as it was. Raises ValueError if it deletes any."""
    listed = _run(["git", "-C", str(tree), "apply", "--numstat", "-z"], patch.encode()).decode()
    names = [row.split("\t", 2)[2] for row in listed.split("\0") if row.count("\t") == 2]
    before = {name: (tree / name).read_text("utf-8") for name in names if (tree / name).is_file()}
    _run(["git", "-C", str(tree), "apply", "--whitespace=nowarn"], patch.encode())
    if deleted := [name for name in names if not (tree / name).is_file()]:
        raise ValueError(f"its patch deletes {deleted[0]}")
    after = {name: (tree / name).read_text("utf-8") for name in names}
    for name in names:
        (tree / name).write_text(before[name], "utf-8") if name in before else (tree / name).unlink()
    return after


def _run(line: list[str], stdin: bytes = b"") -> bytes:
    process = subprocess.run(line, input=stdin, capture_output=True, check=False)
    if process.returncode != 0:
        raise ValueError(process.stderr.decode("utf-8", "replace").strip()[-300:])
    return process.stdout
