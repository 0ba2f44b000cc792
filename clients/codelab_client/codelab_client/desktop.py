"""Notifications of the desktop, by a program of the system.

No text gets into a shell, a script or markup: programs get it as an argument or on stdin, spelled as they read it.
"""

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from codelab_client.tools.processes import own_path

#: Seconds that a program may take.
_PATIENCE_S = 10
_APPLE_SCRIPT = (
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
)
#: Texts become text nodes of the toast's XML. Toasts need the id of an installed application: PowerShell's own.
_POWERSHELL = r"""
$told = [Console]::In.ReadToEnd() | ConvertFrom-Json
$null = [Windows.UI.Notifications.ToastNotificationManager, Windows.UI.Notifications, ContentType = WindowsRuntime]
$template = [Windows.UI.Notifications.ToastTemplateType]::ToastText02
$xml = [Windows.UI.Notifications.ToastNotificationManager]::GetTemplateContent($template)
$texts = $xml.GetElementsByTagName('text')
$null = $texts.Item(0).AppendChild($xml.CreateTextNode($told.title))
$null = $texts.Item(1).AppendChild($xml.CreateTextNode($told.text))
$id = '{1AC14E77-02E7-4E5D-B744-2EB1AE5198B7}\WindowsPowerShell\v1.0\powershell.exe'
$toast = [Windows.UI.Notifications.ToastNotification]::new($xml)
[Windows.UI.Notifications.ToastNotificationManager]::CreateToastNotifier($id).Show($toast)
"""


@dataclass(frozen=True)
class Command:
    """A program with its arguments, and what it reads."""

    arguments: tuple[str, ...]
    stdin: bytes = b""


class Desktop:
    """The desktop of who started the client. folder: what is in it is never run."""

    def __init__(self, environment: Mapping[str, str], folder: Path, platform: str = sys.platform) -> None:
        # The token is nothing for other programs.
        self._environment = {name: value for name, value in environment.items() if not name.startswith("CODELAB_")}
        self._platform = platform
        self._path = own_path(environment, folder)
        self._program, self._kind = self._found()

    @property
    def program(self) -> str:
        """What shows the notifications; empty if nothing can."""
        return self._program

    def command(self, title: str, text: str) -> Command:
        """What shows a notification. title, text: one line each."""
        if self._kind == "osascript":
            lines = [argument for line in _APPLE_SCRIPT for argument in ("-e", line)]
            return Command((self._program, *lines, title, text))
        if self._kind == "powershell":
            script = base64.b64encode(_POWERSHELL.encode("utf-16-le")).decode()
            options = ("-NoProfile", "-NonInteractive", "-EncodedCommand")
            return Command((self._program, *options, script), json.dumps({"title": title, "text": text}).encode())
        return Command((self._program, "--app-name=CodeLab", "--", title, _as_markup(text)))

    def show(self, title: str, text: str) -> str:
        """Show a notification. Returns why that failed; empty if it did not."""
        command = self.command(title, text)
        try:
            process = subprocess.run(
                command.arguments,
                input=command.stdin,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_PATIENCE_S,
                check=False,
                env=self._environment,
            )
        except subprocess.TimeoutExpired:
            return f"{self._kind} takes too long"
        except OSError as error:
            return f"{self._kind}: {error.strerror}"
        return f"{self._kind} ended with {process.returncode}" if process.returncode else ""

    def _found(self) -> tuple[str, str]:
        """The program, and its kind: empty without a desktop, such as over SSH."""
        if self._platform == "win32":
            # A search would begin in the current folder.
            system = Path(self._environment.get("SYSTEMROOT", r"C:\Windows")) / "System32"
            program = system / "WindowsPowerShell" / "v1.0" / "powershell.exe"
            return (str(program), "powershell") if program.is_file() else ("", "")
        if self._environment.get("SSH_CONNECTION"):
            return "", ""
        names = {"osascript": "osascript"}
        if self._platform != "darwin":
            has_desktop = any(map(self._environment.get, ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS")))
            names = {"notify-send": "notify-send"} if has_desktop else {}
            if self._environment.get("WSL_DISTRO_NAME"):
                names["powershell.exe"] = "powershell"
        for name, kind in names.items():
            if (path := shutil.which(name, path=self._path)) is not None:
                return path, kind
        return "", ""


def _as_markup(text: str) -> str:
    """A text as `notify-send` reads it: it takes `\\074` for a character, then desktops take `<b>` for markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\\", "\\\\")
