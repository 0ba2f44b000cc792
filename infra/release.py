"""A release: its one version, and whether what is released can be installed from nothing.

    python -m infra.release check            the version is the same everywhere, and the changelog has it
    python -m infra.release set 0.3.0        write it everywhere, and cut the changelog
    python -m infra.release try              build both wheels and the npm package, install and start each

The version is that of pyproject.toml. Exit status 1: it does not hold, and stderr says why.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_SOURCE = "pyproject.toml"
_LINE = r'^version = "(?P<version>[^"]+)"$'
_MEMBER = r'^  "version": "(?P<version>[^"]+)",$'
#: The first package of an npm lock is the project itself.
_NPM_ROOT = r'^    "": \{\n      "name": "[^"]+",\n      "version": "(?P<version>[^"]+)",$'
#: Where it is written: a file, and the line. More than one, because each package is built from its own folder.
_PLACES = (
    (_SOURCE, _LINE),
    ("uv.lock", r'^name = "codelab-serverless"\nversion = "(?P<version>[^"]+)"$'),
    ("uv.lock", r'^name = "codelab-client"\nversion = "(?P<version>[^"]+)"$'),
    ("uv.lock", r'^name = "codelab-local"\nversion = "(?P<version>[^"]+)"$'),
    ("local/pyproject.toml", _LINE),
    ("clients/codelab_client/pyproject.toml", _LINE),
    ("clients/codelab_client/codelab_client/__init__.py", r'^__version__ = "(?P<version>[^"]+)"$'),
    ("clients/codelab_client/registry/codelab/agent.json", _MEMBER),
    ("clients/codelab_client/registry/codelab/agent.json", r'"codelab-client==(?P<version>[^"]+)"'),
    ("clients/typescript/package.json", _MEMBER),
    ("clients/typescript/package-lock.json", _MEMBER),
    ("clients/typescript/package-lock.json", _NPM_ROOT),
    ("clients/vscode/package.json", _MEMBER),
    ("clients/vscode/package-lock.json", _MEMBER),
    ("clients/vscode/package-lock.json", _NPM_ROOT),
    ("clients/web/package.json", _MEMBER),
    ("clients/web/package-lock.json", _MEMBER),
    ("clients/web/package-lock.json", _NPM_ROOT),
    ("clients/web/src/live.ts", r"name: 'codelab-web', version: '(?P<version>[^']+)'"),
    ("docs/typescript.md", r"codelab-client-(?P<version>[0-9.]+[0-9])\.tgz"),
    ("docs/editors.md", r"codelab-(?P<version>[0-9.]+[0-9])\.vsix"),
)
_CHANGELOG = "CHANGELOG.md"
_UNRELEASED = "## [Unreleased]\n"
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")


class ReleaseError(Exception):
    """It is not ready. The message says what to do."""


def version(root: Path = ROOT) -> str:
    """The version of this checkout."""
    return str(tomllib.loads((root / _SOURCE).read_text("utf-8"))["project"]["version"])


def disagreements(root: Path = ROOT) -> list[str]:
    """What does not agree with the version; nothing if all does."""
    expected = version(root)
    problems = []
    for name, pattern in _PLACES:
        match = _version_in(root / name, pattern)
        if match["version"] != expected:
            problems.append(f"{name} has {match['version']}, and {_SOURCE} has {expected}")
    if f"\n## [{expected}] - " not in (root / _CHANGELOG).read_text("utf-8"):
        problems.append(f"{_CHANGELOG} has no section [{expected}] with a date")
    return problems


def _version_in(path: Path, pattern: str) -> re.Match[str]:
    match = re.search(pattern, path.read_text("utf-8"), re.MULTILINE)
    if match is None:
        raise ReleaseError(f"{path} has no version where it was expected")
    return match


def set_version(new: str, today: date, root: Path = ROOT) -> None:
    """Write the version everywhere, and give what the changelog calls unreleased this name. Raises ReleaseError."""
    if not _VERSION.fullmatch(new):
        raise ReleaseError(f"{new} is no version: three numbers, such as 0.3.0")
    changelog = (root / _CHANGELOG).read_text("utf-8")
    if f"\n## [{new}]" in changelog:
        raise ReleaseError(f"{_CHANGELOG} has a section [{new}] already")
    if _UNRELEASED not in changelog:
        raise ReleaseError(f"{_CHANGELOG} has no section [Unreleased]")
    for name, pattern in _PLACES:
        match = _version_in(root / name, pattern)
        text = match.string[: match.start("version")] + new + match.string[match.end("version") :]
        (root / name).write_text(text, "utf-8")
    cut = changelog.replace(_UNRELEASED, f"{_UNRELEASED}\n## [{new}] - {today.isoformat()}\n", 1)
    (root / _CHANGELOG).write_text(cut, "utf-8")


def try_out(root: Path = ROOT) -> None:
    """Build the packages and start each from an environment that has nothing else. Raises ReleaseError."""
    with tempfile.TemporaryDirectory(prefix="release-") as temporary:
        _try_client(root, Path(temporary))
        _try_local_cloud(root, Path(temporary))
        _try_npm(root, Path(temporary))


def _try_client(root: Path, folder: Path) -> None:
    wheel, programs = _installed(root, root / "clients" / "codelab_client", folder / "client")
    output = _run([str(programs / "codelab"), "--version"], folder).strip()
    if version(root) not in output.split():
        raise ReleaseError(f"codelab --version says {output!r}, not {version(root)}")
    _run([str(programs / "codelab"), "exec", "--help"], folder)
    sys.stdout.write(f"{wheel.name}: {wheel.stat().st_size / 1024:.0f} KB, {output}\n")


#: Has the installed local cloud run an application, and speaks to it. The environment has no other package of ours.
_CHAT = """
import importlib.util, json, sys
from codelab_local import LocalCloud
from websockets.sync.client import connect
others = [name for name in ("codelab", "codelab_client") if importlib.util.find_spec(name)]
if others:
    sys.exit(f"the environment has {others}")
with LocalCloud(sys.argv[1]) as cloud, connect(cloud.url()) as client:
    client.send(json.dumps({"action": "sendmessage", "data": "hello"}))
    print(client.recv(60))
"""


def _try_local_cloud(root: Path, folder: Path) -> None:
    wheel, programs = _installed(root, root / "local", folder / "local")
    shutil.copytree(root / "examples" / "chat", folder / "chat")
    output = _run([str(programs / "python"), "-c", _CHAT, str(folder / "chat" / "template.yaml")], folder).strip()
    if output != "hello":
        raise ReleaseError(f"examples/chat on {wheel.name} answers {output!r}")
    sys.stdout.write(f"{wheel.name}: {wheel.stat().st_size / 1024:.0f} KB, runs examples/chat\n")


def _installed(root: Path, project: Path, folder: Path) -> tuple[Path, Path]:
    """The wheel of a project, and the programs of an environment in `folder` that has it and what it needs."""
    uv = str(root / ".uv" / "bin" / "uv")
    _run([uv, "build", "--quiet", "--wheel", "--out-dir", str(folder / "dist"), str(project)], root)
    [wheel] = (folder / "dist").glob("*.whl")
    _run([uv, "venv", "--quiet", "--python", sys.executable, str(folder / "venv")], root)
    _run([uv, "pip", "install", "--quiet", "--python", str(folder / "venv/bin/python"), str(wheel)], root)
    return wheel, folder / "venv" / "bin"


def _try_npm(root: Path, folder: Path) -> None:
    package = folder / "typescript"
    ignored = shutil.ignore_patterns("node_modules", "dist")
    shutil.copytree(root / "clients" / "typescript", package, ignore=ignored)
    _run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], package)
    report = json.loads(_run(["npm", "pack", "--json", "--silent", "--pack-destination", str(folder)], package))
    name = (report if isinstance(report, list) else list(report.values()))[0]["filename"]
    project = folder / "project"
    project.mkdir()
    (project / "package.json").write_text('{"private": true, "type": "module"}\n', "utf-8")
    _run(["npm", "install", "--silent", "--no-audit", "--no-fund", str(folder / name)], project)
    program = "import('@codelab/client/node').then((it) => console.log(typeof it.connect))"
    if (output := _run(["node", "--eval", program], project).strip()) != "function":
        raise ReleaseError(f"@codelab/client/node has no connect: {output}")
    sys.stdout.write(f"{name}: {(folder / name).stat().st_size / 1024:.0f} KB\n")


def _run(line: Sequence[str], folder: Path) -> str:
    try:
        process = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise ReleaseError(f"{error.filename} is needed") from None
    if process.returncode != 0:
        raise ReleaseError(
            f"{' '.join(line)} ended with {process.returncode}:\n{process.stdout[-2000:]}{process.stderr[-2000:]}"
        )
    return process.stdout


def main(arguments: Sequence[str]) -> int:
    try:
        match arguments:
            case ["check"]:
                if problems := disagreements():
                    raise ReleaseError("\n".join(problems))
            case ["set", new]:
                set_version(new, date.today())
            case ["try"]:
                try_out()
            case _:
                raise ReleaseError("usage: python -m infra.release check, set VERSION, or try")
    except ReleaseError as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
