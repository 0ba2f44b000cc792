"""`make vscode`: packs the extension for VS Code, clients/vscode, into build/codelab-VERSION.vsix.

Needs Node.js and the npm registry. The same sources give the same bytes.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTENSION = ROOT / "clients" / "vscode"
#: The packer is a project of its own: it has many packages, and tests of the extension need none of them.
PACKAGING = EXTENSION / "packaging"
#: The time of all files in the archive, whenever it is made: zip archives have none before 1980.
EPOCH = "946684800"


def pack(target: Path) -> Path:
    """Build and pack the extension. Gives the archive in the folder `target`. Raises SystemExit with an explanation."""
    version = json.loads((EXTENSION / "package.json").read_text("utf-8"))["version"]
    archive = target / f"codelab-{version}.vsix"
    target.mkdir(parents=True, exist_ok=True)
    for project in (EXTENSION, PACKAGING):
        _install(project)
    shutil.rmtree(EXTENSION / "dist", ignore_errors=True)
    _run(["node", "build.mjs"], EXTENSION)
    packer = ["node", str(PACKAGING / "node_modules" / "@vscode" / "vsce" / "vsce"), "package", "--no-dependencies"]
    _run([*packer, "--allow-missing-repository", "--out", str(archive)], EXTENSION)
    return archive


def _install(project: Path) -> None:
    """Install the locked packages, unless they are."""
    lock, installed = project / "package-lock.json", project / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], project)


def _run(command: list[str], folder: Path) -> None:
    program = shutil.which(command[0])
    if program is None:
        raise SystemExit(f"make vscode needs {command[0]}: install Node.js 20.19 or later")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
    done = subprocess.run(
        [program, *command[1:]], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} in {folder} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    packed = pack(ROOT / "build")
    sys.stdout.write(f"{packed.relative_to(ROOT)}: {packed.stat().st_size / 1000:.0f} KB\n")
