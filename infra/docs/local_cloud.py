"""docs/local-cloud.md: the local cloud beside AWS, from local_cloud.toml and a run of its tests.

`python -m infra.docs.local_cloud` (and `make lint`) checks that the page is that of a run in which all passed. With
`--run` it runs the tests and writes the page; a behaviour whose tests did not pass is said to fail.
"""

import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.docs import serverless_offline
from infra.docs.conformance import ROOT, is_test
from infra.docs.markdown import page_heading, table

PAGE = ROOT / "docs/local-cloud.md"
_BEHAVIOURS = Path(__file__).with_suffix(".toml")
_SAME, _DIFFERS, _UNDOCUMENTED, _FAILS = "as documented", "differs", "undocumented; does this", "**fails**"
_HOLDS, _UNKNOWN = "the same", "–"
_COUNTED = {_SAME: "as documented", _DIFFERS: "differ", _UNDOCUMENTED: "are undocumented", _FAILS: "fail"}
_ABOUT = """
The [local cloud](../local/codelab_local/README.md) runs any SAM application with a WebSocket API on one machine. This
page compares what it does with what AWS documents. What it says of the local cloud is what tests show: `python -m
infra.docs.local_cloud --run` ran them and wrote this page, and `make test-deep` fails unless all of them pass.

The documentation was read in copies: AWS's archived developer guides of June 2023, the quotas of WebSocket APIs and
Invoke as of November 2026. What AWS itself does was not measured. Where no source is named, AWS documents nothing, and
the local cloud does what others have seen.

[serverless-offline](https://github.com/dherault/serverless-offline) runs applications of the Serverless Framework, not
SAM's. What the page says of it is from a run of the same tests on {day}, with its version {serverless-offline}, version
{serverless} of the framework, Node.js {node}, and [an application that does what that of the tests
does](../tests/gateway/serverless_offline/handlers.mjs). `python -m infra.docs.serverless_offline` repeats it. A dash:
the behaviour's tests run in the local cloud alone, and nothing is known.
"""
_MISSING = """
## What it does not have

- integrations other than Lambda functions, mapping templates, request validation
- API keys and usage plans, custom domain names, access logs, the limits of an account
- IAM: every call is allowed
- JWT authorizers and those of IAM: the start says which routes are open here
- of HTTP APIs: payload format 1.0, CORS settings, stages with a name
- REST APIs (v1), and more than one WebSocket API in a template
- functions in containers, and in other languages than Python: the start says which are left out
- limits of memory
"""


@dataclass(frozen=True)
class Behaviour:
    """One row: what AWS does, the name of the source, how the local cloud differs, and the tests (pytest ids).

    `offline`: how serverless-offline differs. `offline_holds`: it does not, although tests failed, and why they did.
    """

    what: str
    source: str
    differs: str
    tests: tuple[str, ...]
    offline: str
    offline_holds: str


def parts(path: Path = _BEHAVIOURS) -> dict[str, list[Behaviour]]:
    """The behaviours, by the part of the page."""
    return {
        part["name"]: [
            Behaviour(
                row["what"],
                row.get("source", ""),
                row.get("differs", ""),
                tuple(f"tests/{name}" for name in row["tests"]),
                row.get("offline", ""),
                row.get("offline_holds", ""),
            )
            for row in part["rows"]
        ]
        for part in tomllib.loads(path.read_text("utf-8"))["part"]
    }


def tests() -> list[str]:
    """The pytest ids of all tests on the page."""
    return sorted({test for rows in parts().values() for row in rows for test in row.tests})


def page(failed: Collection[str] = ()) -> str:
    """The page, after a run in which the tests `failed` did not pass."""
    sources: dict[str, str] = tomllib.loads(_BEHAVIOURS.read_text("utf-8"))["sources"]
    rows = [row for part in parts().values() for row in part]
    states = {state: sum(_state(row, failed) == state for row in rows) for state in _COUNTED}
    lines = [
        "<!-- Written by `python -m infra.docs.local_cloud --run` from infra/docs/local_cloud.toml; do not edit. -->",
        page_heading("The local cloud beside AWS"),
        _ABOUT.strip("\n").format(**serverless_offline.about()),
        "",
        f"{len(rows)} behaviours: {', '.join(f'{count} {_COUNTED[state]}' for state, count in states.items())}.",
        f"{len(tests())} tests show them.",
    ]
    outcomes = serverless_offline.recorded()
    offline = {row: _offline(row, outcomes) for row in rows}
    known = [cell.partition(":")[0] for cell in offline.values() if cell != _UNKNOWN]
    same, other = known.count(_HOLDS), known.count(_DIFFERS)
    lines.append(f"What serverless-offline does is known of {len(known)}: {same} are the same there, {other} differ.")
    for name, behaviours in parts().items():
        has_offline = any(offline[row] != _UNKNOWN for row in behaviours)
        heading = ["AWS", "here", *(["serverless-offline"] * has_offline), "source", "tests"]
        cells = (
            [what, here, *([offline[row]] * has_offline), *others]
            for row in behaviours
            for what, here, *others in [_cells(row, sources, failed)]
        )
        lines += ["", f"## {name}", ""]
        lines += table(heading, cells)
    return "\n".join(lines) + "\n" + _MISSING


def _cells(row: Behaviour, sources: dict[str, str], failed: Collection[str]) -> Iterator[str]:
    state = _state(row, failed)
    yield row.what
    yield f"{state}: {row.differs}" if state == _DIFFERS else state
    yield f"[{row.source}]({sources[row.source]})" if row.source else ""
    yield " ".join(f"`{test.removeprefix('tests/')}`" for test in row.tests)


def _offline(row: Behaviour, outcomes: Mapping[str, str]) -> str:
    """What serverless-offline does, by the recorded outcomes of its run."""
    ran = _outcomes(row, outcomes)
    if ran is None:
        return _UNKNOWN
    if row.offline:
        return f"{_DIFFERS}: {row.offline}"
    return f"{_HOLDS}: {row.offline_holds}" if row.offline_holds else _HOLDS


def _outcomes(row: Behaviour, outcomes: Mapping[str, str]) -> set[str] | None:
    """The recorded outcomes of a row's tests; None if not all of them ran."""
    ran = [
        {outcome for test, outcome in outcomes.items() if test == name or test.startswith(f"{name}[")}
        for name in row.tests
    ]
    return set.union(*ran) if all(ran) else None


def _state(row: Behaviour, failed: Collection[str]) -> str:
    if any(test in failed for test in row.tests):
        return _FAILS
    if row.differs:
        return _DIFFERS
    return _SAME if row.source else _UNDOCUMENTED


def problems() -> list[str]:
    """What is wrong with the behaviours and their page, one line each."""
    sources = tomllib.loads(_BEHAVIOURS.read_text("utf-8"))["sources"]
    rows = [row for part in parts().values() for row in part]
    wrong = [f"no such test: {test}" for test in tests() if not is_test(test)]
    wrong += [f"no test shows: {row.what}" for row in rows if not row.tests]
    wrong += [f"no such source: {row.source}" for row in rows if row.source and row.source not in sources]
    for row in rows:
        ran = _outcomes(row, serverless_offline.recorded())
        is_told = bool(row.offline) + bool(row.offline_holds)
        if is_told != (ran is not None and ran != {"passed"}):
            wrong.append(f"tell how serverless-offline differs if a test failed in its run, and only then: {row.what}")
    wrong += [f"no row has the source {name}" for name in sources if name not in {row.source for row in rows}]
    if wrong or (PAGE.exists() and PAGE.read_text("utf-8") == page()):
        return wrong
    return ["the page is not that of a run in which all passed: run 'python -m infra.docs.local_cloud --run'"]


def run() -> list[str]:
    """Run the tests, and write the page. Returns the tests that did not pass."""
    import pytest

    from infra.docs.outcomes import Recorder

    recorder = Recorder()
    pytest.main(["-q", "-m", "deep or not deep", *tests()], plugins=[recorder])
    failed = recorder.missing(tests())
    PAGE.write_text(page(failed), "utf-8")
    return failed


def main(arguments: Sequence[str]) -> int:
    wrong = [f"did not pass: {test}" for test in run()] if "--run" in arguments else []
    wrong += problems()
    sys.stderr.writelines(f"docs/local-cloud.md: {problem}\n" for problem in wrong)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
