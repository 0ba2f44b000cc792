"""Finds out which sandbox works on this machine, by running it."""

import logging
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from codelab_client.sandbox.access import Access, Sandbox, Unsandboxed
from codelab_client.sandbox.bubblewrap import Bubblewrap
from codelab_client.sandbox.landlock import Landlock
from codelab_client.sandbox.seatbelt import Seatbelt

_log = logging.getLogger(__name__)

#: Seconds for a probe, which takes some milliseconds.
_PATIENCE = 20
#: Writes inside, then tries to read and to write outside. Prints what it could do.
_PROBE = """
echo inside > "$1/written" && echo wrote-inside
cat "$2/secret" 2>/dev/null && echo read-outside
(echo x > "$2/written") 2>/dev/null && echo wrote-outside
exit 0
"""


@dataclass(frozen=True)
class Choice:
    """The sandbox that works. refusals: why each better one does not, by its name."""

    sandbox: Sandbox
    refusals: dict[str, str]


def choose(home: Path | None = None) -> Choice:
    """The best sandbox that works here. Logs a warning if there is none."""
    home = (home or Path.home()).resolve()
    candidates: Sequence[tuple[str, Callable[[], Sandbox]]] = (
        ("bubblewrap", lambda: Bubblewrap(home)),
        ("landlock", lambda: Landlock()),
        ("seatbelt", Seatbelt),
    )
    refusals = {}
    for name, make in candidates:
        try:
            sandbox = make()
            probe(sandbox)
        except (OSError, RuntimeError) as error:
            refusals[name] = str(error)
        else:
            return Choice(sandbox, refusals)
    _log.warning(
        "commands run without a sandbox: %s", "; ".join(f"{name}: {reason}" for name, reason in refusals.items())
    )
    return Choice(Unsandboxed(), refusals)


def probe(sandbox: Sandbox) -> None:
    """Run a program in the sandbox that tries to leave it. Raises RuntimeError if it could, or if it did not run."""
    with tempfile.TemporaryDirectory(prefix="codelab-probe-") as name:
        inside, outside = Path(name).resolve() / "in", Path(name).resolve() / "out"
        inside.mkdir()
        outside.mkdir()
        (outside / "secret").write_text("secret")
        argv = ("/bin/sh", "-c", _PROBE, "sh", str(inside), str(outside))
        launch = sandbox.launch(argv, Access(writable=(inside,)), inside)
        process = subprocess.run(
            launch.argv,
            cwd=launch.cwd,
            env={"PATH": os.defpath, **launch.env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
        if process.stdout.split() != [b"wrote-inside"] or (outside / "written").exists():
            output = (process.stderr or process.stdout).decode(errors="replace").strip()
            raise RuntimeError(output[:300] or f"the probe ended with {process.returncode}")
        if not (inside / "written").exists():
            raise RuntimeError("what the probe wrote is not there")
