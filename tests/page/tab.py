"""One tab with the page."""

from typing import Any, Self

#: Milliseconds to wait on a busy machine.
PATIENCE = 60_000


class Tab:
    """`context` is Playwright's. An empty `session` is a visit without a link to one.

    `errors` are those of the page and its policy; `foreign` are requests to others.
    """

    def __init__(self, context: Any, origin: str, session: str) -> None:
        self.context = context
        self.origin = origin
        self.session = session
        self.errors: list[str] = []
        self.foreign: list[str] = []
        context.set_default_timeout(PATIENCE)
        self.page = context.new_page()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._said)
        self.page.on("request", self._requested)
        self.page.on("dialog", self._interrupted)
        self.page.goto(f"{origin}/#/s/{session}" if session else f"{origin}/")

    def _said(self, message: Any) -> None:
        # The browser reports answers of the API that the page expects, and connections that a test breaks.
        expected = ("Failed to load resource", "WebSocket connection to")
        if message.type == "error" and not message.text.startswith(expected):
            self.errors.append(message.text)

    def _requested(self, request: Any) -> None:
        if not request.url.startswith((self.origin, "data:", f"blob:{self.origin}")):
            self.foreign.append(request.url)

    def _interrupted(self, dialog: Any) -> None:
        self.errors.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def online(self) -> Self:
        self.page.locator(".link.online").wait_for(state="attached")
        return self

    def say(self, text: str) -> None:
        self.page.get_by_role("textbox", name="Message").fill(text)
        self.page.keyboard.press("Enter")

    def ended(self, turns: int = 1) -> Self:
        """Wait until so many turns have ended."""
        self.page.locator(".note.end").nth(turns - 1).wait_for()
        return self

    def press(self, name: str, *, exact: bool = True) -> None:
        self.page.get_by_role("button", name=name, exact=exact).first.click()

    @property
    def answers(self) -> list[str]:
        return [str(text) for text in self.page.locator(".answer").all_inner_texts()]

    def file(self, path: str) -> str | None:
        """The content of a file of the sample project, as the browser has stored it."""
        found: str | None = self.run(
            """async (path) => {
              let folder = await navigator.storage.getDirectory();
              const names = ['workspaces', 'sample', ...path.split('/')];
              try {
                for (const name of names.slice(0, -1)) folder = await folder.getDirectoryHandle(name);
                return await (await (await folder.getFileHandle(names.at(-1))).getFile()).text();
              } catch { return null; }
            }""",
            path,
        )
        return found

    def save(self, path: str, content: str) -> None:
        """Save a file of the sample project, as another program would."""
        self.run(
            """async ([path, content]) => {
              let folder = await navigator.storage.getDirectory();
              const names = ['workspaces', 'sample', ...path.split('/')];
              for (const name of names.slice(0, -1)) folder = await folder.getDirectoryHandle(name);
              const writable = await (await folder.getFileHandle(names.at(-1))).createWritable();
              await writable.write(content);
              await writable.close();
            }""",
            [path, content],
        )

    def run(self, function: str, argument: Any = None) -> Any:
        return self.page.evaluate(function, argument)
