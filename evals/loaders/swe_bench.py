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
    for number, it in enumerate(rows.given(lines)):
        name = harbor.folder_name(str(it.get("instance_id") or "instance"), number)
        try:
            yield _instance(it, repositories, folder / name)
        except (KeyError, ValueError, OSError, UnicodeDecodeError) as error:
            yield LeftOut(name, repr(error))


def _instance(it: Mapping[str, Any], repositories: Path, folder: Path) -> Path:
    wanted = [*_names(it["FAIL_TO_PASS"]), *_names(it.get("PASS_TO_PASS") or [])]
    if other := [name for name in wanted if "::" not in name]:
        raise ValueError(f"{other[0]!r} is no name of pytest's")
    owner, _, name = str(it["repo"]).rpartition("/")
    clone = next((path for path in (repositories / f"{owner}__{name}", repositories / name) if path.exists()), None)
    if clone is None:
        raise ValueError(f"there is no clone of {it['repo']} in {repositories}")
    with tempfile.TemporaryDirectory(prefix="swe-bench-") as temporary:
        tree = Path(temporary)
        _extract(clone, str(it["base_commit"]), tree)
        solution = _patched(tree, str(it["patch"]))
        tests = _patched(tree, str(it["test_patch"]))
    harbor.write(
        folder,
        f"swe-bench/{folder.name}",
        str(it["problem_statement"]),
        metadata={"kind": "issue", "language": "en"},
        files={},
        tests=pytest_files(tests, paths=sorted({name.partition("::")[0] for name in wanted}), wanted=wanted),
        solution=solution,
        environment={"PYTHONPATH": "/app:/app/src"},
        agent_timeout_s=1800,
        verifier_timeout_s=900,
    )
    _extract(clone, str(it["base_commit"]), folder / "environment" / "files")
    return folder


def _names(given: Any) -> list[str]:
    found = json.loads(given) if isinstance(given, str) else given
    if not isinstance(found, list):
        raise ValueError(f"{given!r} is no list of tests")
    return [str(name) for name in found]


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
    if gone := [name for name in names if not (tree / name).is_file()]:
        raise ValueError(f"its patch deletes {gone[0]}")
    after = {name: (tree / name).read_text("utf-8") for name in names}
    for name in names:
        (tree / name).write_text(before[name], "utf-8") if name in before else (tree / name).unlink()
    return after


def _run(line: list[str], given: bytes = b"") -> bytes:
    done = subprocess.run(line, input=given, capture_output=True, check=False)
    if done.returncode != 0:
        raise ValueError(done.stderr.decode("utf-8", "replace").strip()[-300:])
    return done.stdout
