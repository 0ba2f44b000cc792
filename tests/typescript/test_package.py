"""The TypeScript client passes its own tests against the running system, and its types are strict."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from codelab.protocol.protected import PROTECTED, PROTECTED_FILES, is_protected, may_hold_protected
from codelab_local import LocalCloud

from tests.client.breakable_proxy import BreakableProxy
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.node import node_with
from tests.processes import run
from tests.typescript import NODE, PACKAGE, sole_builder

CHAPTER = PACKAGE.parents[1] / "docs/typescript.md"
OLDEST = Path(__file__).with_name("oldest")
ENVIRONMENT = {**os.environ, "NO_COLOR": "1", "CI": "1"}
#: A text that streams for a while.
LONG = "".join(f"w{n} " for n in range(400))


def scripts(model: ScriptedModel) -> None:
    """What the model answers to the messages of clients/typescript/tests/live."""
    model.script("ts-hello", Says("Hello from the model."))
    model.script("ts-long", Says(LONG, piece=8, delay=0.005))
    model.script("ts-read", Says("Reading.", [call("read_file", path="a.txt")]), Says("It was read."))
    model.script("ts-slow", Says(LONG, piece=8, delay=0.05))
    model.script(
        "ts-large", Says("", [call("write_file", path="a.txt", content="x" * 150_000)], piece=5_000), Says("No.")
    )
    model.script("ts-own", Says("", [call("lookup", word="turn")]), Says("It was looked up."))
    model.script("ts-write", Says("", [call("write_file", path="a.txt", content="new")]), Says("It was written."))


def protected_paths() -> list[tuple[str, bool, bool]]:
    """Paths, whether each is protected, and whether it may hold what is."""
    names = [name.replace("*", "x") for name in (*PROTECTED, *PROTECTED_FILES)]
    forms = ("{}", "a/{}", "{}/b", "./{}/", "A\\{} . ", "a{}", "{}z", "a/b.py")
    paths = [form.format(name) for name in names for form in forms]
    paths += [name.upper() for name in names] + [f"{name[:2]}\u200d{name[2:]}" for name in names]
    paths += [
        "",
        ".",
        "GIT~1",
        "git~1.b/x",
        "a.~1",
        "Strasse",
        ".gıt",
        ".ＧＩＴ",
        ".gi\u0301t",
        "ſsh",
        ".ſſh",
        "src",
        "a.b",
        ".x",
    ]
    return [(path, is_protected(path), may_hold_protected(path)) for path in paths]


def test_the_package_passes_its_own_tests(cloud: LocalCloud, model: ScriptedModel, tmp_path: Path) -> None:
    node = node_with(PACKAGE, NODE)
    scripts(model)
    with BreakableProxy(cloud.info["port"]) as proxy:
        environment = {"CODELAB_URL": cloud.http, "CODELAB_PROXY": f"http://127.0.0.1:{proxy.port}"}
        environment["PROTECTED_PATHS"] = str(tmp_path / "protected.json")
        (tmp_path / "protected.json").write_text(json.dumps(protected_paths()))
        done = run(node, "node_modules/vitest/vitest.mjs", "run", cwd=PACKAGE, env={**ENVIRONMENT, **environment})
    print(done.stdout)  # noqa: T201 - with the sizes
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_client_and_the_chapter_are_strictly_typed(tmp_path: Path) -> None:
    node = node_with(PACKAGE, NODE)
    snippets = re.findall(r"^```ts\n(.*?)^```", CHAPTER.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(snippets) > 5
    for n, snippet in enumerate(snippets):
        (tmp_path / f"snippet{n}.ts").write_text(snippet, encoding="utf-8")
    options = {
        "paths": {
            "@codelab/client": [str(PACKAGE / "src/index.ts")],
            "@codelab/client/*": [str(PACKAGE / "src/*.ts")],
            "react": [str(PACKAGE / "node_modules/@types/react")],
            "vue": [str(PACKAGE / "node_modules/vue")],
        },
        "typeRoots": [str(PACKAGE / "node_modules/@types")],
        "types": ["node"],
        "module": "esnext",
        "moduleResolution": "bundler",
        "noUnusedLocals": False,
    }
    checked = [PACKAGE / "src", PACKAGE / "tests", tmp_path]
    config = {"extends": str(PACKAGE / "tsconfig.json"), "compilerOptions": options, "include": list(map(str, checked))}
    (tmp_path / "tsconfig.json").write_text(json.dumps(config))
    done = run(node, "node_modules/typescript/bin/tsc", "--project", str(tmp_path), cwd=PACKAGE)
    assert done.returncode == 0, done.stdout


#: Uses all entries of the installed package, as a module of either kind.
CONSUMER = """
import { connect, createConversation, EMPTY, isCallOf, reduce } from "@codelab/client";
import type { ConversationState, Session, ToolCallFrame } from "@codelab/client";
import { stateFolder } from "@codelab/client/node";
import { useCodelab } from "@codelab/client/react";
import { useCodelab as useCodelabInVue } from "@codelab/client/vue";

export const state: ConversationState = reduce(EMPTY, { type: "titled", title: "a title" });
export const titleOf = (session: Session): string => session.title;
export function pathOf(call: ToolCallFrame): string | undefined {
  return isCallOf(call, "write_file", "edit_file") ? call.arguments?.path : undefined;
}
// @ts-expect-error a state is never changed
state.title = "another";
console.log(stateFolder(), ...[connect, createConversation, useCodelab, useCodelabInVue].map((one) => typeof one));
"""


@pytest.mark.deep
def test_the_packed_package_has_what_it_needs_and_nothing_else(tmp_path: Path) -> None:
    """Strict programs of both kinds compile with it, with the oldest compiler that it names too, and run."""
    node = node_with(PACKAGE, NODE)
    with sole_builder():
        packed = npm("pack", "--json", "--pack-destination", str(tmp_path), cwd=PACKAGE)
    (archive,) = tmp_path.glob("*.tgz")
    names = {file["path"] for file in json.loads(packed[packed.index("[\n") :])[0]["files"]}
    sources = {path.stem for path in (PACKAGE / "src").glob("*.ts")}
    built = {f"dist/{kind}{name}{ending}" for name in sources for ending in (".js", ".d.ts") for kind in ("", "cjs/")}
    assert names == {"package.json", "README.md", "LICENSE", "dist/cjs/package.json", *built}
    (tmp_path / "package.json").write_text('{"private": true}')
    npm("install", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=peer", str(archive), cwd=tmp_path)
    modules = tmp_path / "node_modules"
    for name in ("react", "vue", "@vue", "@types", "csstype"):
        (modules / name).symlink_to(PACKAGE / "node_modules" / name)
    for name in ("program.mts", "program.cts"):
        (tmp_path / name).write_text(CONSUMER)
    checks = ("--strict", "--exactOptionalPropertyTypes", "--module", "nodenext", "--types", "node", "--outDir", "out")
    libraries = ("--target", "es2022", "--lib", "es2022,dom,dom.iterable")
    node_with(OLDEST, NODE)
    for project, quietly in ((PACKAGE, ()), (OLDEST, ("--skipLibCheck",))):  # Vue's types are newer
        tsc = project / "node_modules/typescript/bin/tsc"
        done = run(node, str(tsc), *checks, *libraries, *quietly, "program.mts", "program.cts", cwd=tmp_path)
        assert done.returncode == 0, done.stdout
        for program in ("out/program.mjs", "out/program.cjs"):
            done = run(node, program, cwd=tmp_path, env={**os.environ, "XDG_STATE_HOME": "/state"})
            assert done.stdout == "/state/codelab function function function function\n", done.stderr


def npm(*arguments: str, cwd: Path) -> str:
    command = shutil.which("npm")
    assert command is not None
    done = run(command, *arguments, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
