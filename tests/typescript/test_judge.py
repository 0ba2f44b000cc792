"""The TypeScript client keeps the rules that `codelab judge` knows."""

from pathlib import Path

import pytest
from codelab_client.judge.command import SCENARIOS, STATUSES, judge
from codelab_client.judge.drivers import Command
from codelab_client.judge.rules import RULES

from tests.node import node_with
from tests.processes import run
from tests.typescript import NODE, PACKAGE


@pytest.mark.deep
async def test_the_typescript_client_keeps_the_rules(tmp_path: Path) -> None:
    node, program, workspace = node_with(PACKAGE, NODE), tmp_path / "judged_client.mjs", tmp_path / "work"
    workspace.mkdir()
    require = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);"
    bundle = ("--bundle", "--platform=node", "--format=esm", f"--banner:js={require}", f"--outfile={program}")
    built = run(node, "node_modules/esbuild/bin/esbuild", "tests/judged_client.ts", *bundle, cwd=PACKAGE)
    assert built.returncode == 0, built.stderr
    driver = Command(f"{node} {program} {{url}}", workspace, {"approve": "y", "reject": "n", "edit": "e"}, patience=5.0)
    playlist = tuple(scenario for scenario in SCENARIOS if scenario not in STATUSES)
    try:
        report = await judge(driver, workspace, playlist=playlist)
    finally:
        await driver.stop()
    assert (report.complaints, report.gaps) == ({}, []), report.text()
    assert RULES.keys() - report.kept_rules <= {"pings", "size-limits", "retry-after", "final-401"}
