"""What graders of others bring along from registries, for sandboxes without network: pytest, and ways to ask for it;
vitest for exercises in JavaScript.

Most tests in Harbor's format first install `uv` or `pytest`. Here both are there before, and what would install them
does nothing.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from evals.sandbox import Mounts

#: Where they stand in a sandbox.
_PLACE = "/grader"
_VITEST = Path(__file__).parent / "loaders" / "vitest"
_PACKAGES = ("pytest>=8,<9", "pytest-json-ctrf==0.3.5")
_PYTEST = '#!/bin/sh\nexec python3 -m pytest "$@"\n'
_UVX = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    --with | --from | --python | -p | -w) shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
program="$1"
shift
case "$program" in
  pytest | pytest@*) exec python3 -m pytest "$@" ;;
esac
echo "$program cannot be had without a network" >&2
exit 127
"""
_NOTHING = "#!/bin/sh\nexit 0\n"
#: Only what installs uv is skipped: a grader may ask a server that the agent has made.
_CURL = '#!/bin/sh\ncase "$*" in *astral.sh*) exit 0 ;; esac\nexec /usr/bin/curl "$@"\n'
_SHIMS = {
    "pytest": _PYTEST,
    "uvx": _UVX,
    "curl": _CURL,
    "apt-get": _NOTHING,
    "apt": _NOTHING,
    "apk": _NOTHING,
    "env": "# uv is there already\n",
}


def made(folder: Path, *, with_vitest: bool = False) -> Path | None:
    """The tools in `folder`, made there at the first time. None if the packages cannot be had."""
    if not (folder / "whole").exists():
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "bin").mkdir(parents=True)
        for name, text in _SHIMS.items():
            (folder / "bin" / name).write_text(text, "utf-8")
            (folder / "bin" / name).chmod(0o755)
        uv = shutil.which("uv") or str(Path(__file__).resolve().parent.parent / ".uv/bin/uv")
        python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
        line = [uv, "pip", "install", "--quiet", "--target", str(folder / "packages"), "--python", python, *_PACKAGES]
        if not _succeeds(line, folder):
            return None
        (folder / "whole").touch()
    if with_vitest and not (folder / "node" / "node_modules" / "vitest").exists():
        shutil.copytree(_VITEST, folder / "node", dirs_exist_ok=True)
        if not _succeeds(["npm", "ci", "--silent", "--no-audit", "--no-fund"], folder / "node"):
            return None
    return folder


def _succeeds(command: list[str], folder: Path) -> bool:
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def add(folder: Path, mounts: Mounts, environment: dict[str, str]) -> None:
    """Put the tools into a sandbox."""
    mounts.readable |= {_PLACE: folder, "/root/.local/bin": folder / "bin"}
    own = environment.get("PYTHONPATH", "")
    environment["PYTHONPATH"] = f"{_PLACE}/packages" + (f":{own}" if own else "")
    environment["PATH"] = f"{_PLACE}/bin:" + environment.get("PATH", "/usr/local/bin:/usr/bin:/bin")
