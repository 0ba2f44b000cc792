"""A user talks, decides and looks on, in the page."""

import io
import json
import re
import subprocess
import sys
import threading
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest

from infra import page as page_build
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.page.conftest import OpenTab
from tests.page.tab import Tab
from tests.page.test_looks import violations
from tests.waiting import until


def test_the_first_answer_is_markdown(tab: Tab, model: ScriptedModel) -> None:
    """The page comes whole from its own origin, and the model is not made to believe that it has a shell."""
    loaded = tab.run("() => performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert all(name.startswith(tab.origin) for name in loaded)
    assert tab.run("() => [...document.scripts].every((script) => script.src && !script.text)")
    text = "# Hello\n\nThis is **bold**.\n\n```python\nprint('<b>')\n```\n\n1. one\n2. two"
    tab.say(model.script("first", Says(text)))
    tab.ended()
    assert tab.page.locator(".answer h1").inner_text() == "Hello"
    assert tab.page.locator(".answer strong").inner_text() == "bold"
    assert tab.page.locator(".answer pre code").inner_text().strip() == "print('<b>')"
    assert tab.page.locator(".answer ol > li").count() == 2
    assert 0 < float(tab.page.locator(".meter progress").get_attribute("value") or 0) < 1, "how full the context is"
    asked = model.requests["first"][0]
    assert "edit_file" in str(asked)
    assert "shell: none: no commands can be run" in str(asked)
    assert "run_command" not in str(asked)


@pytest.mark.deep
def test_an_approval_with_an_edit_is_executed_as_edited(tab: Tab, model: ScriptedModel) -> None:
    """What has no text that could be reviewed is edited as JSON."""
    asked = Says("I make it.", calls=[call("create_directory", path="notes")])
    tab.say(model.script("edited", asked, Says("Done.")))
    card = tab.page.locator(".call.asking")
    card.locator("button.primary[aria-disabled=false]").wait_for()
    for state in ("Reject", "Always allow…"):
        tab.press(state)
        assert violations(tab) == []
        tab.press("Cancel")
    tab.press("Edit")
    assert violations(tab) == []
    arguments = card.get_by_role("textbox", name="Arguments")
    arguments.fill(arguments.input_value().replace("notes", "papers"))
    tab.press("Approve")
    tab.ended()
    tab.page.locator(".call.completed .subject", has_text="papers").wait_for()
    tab.page.locator(".call.completed").get_by_text("edited by you").wait_for()
    assert "edited_arguments" in str(model.requests["edited"][-1])


def test_hunks_are_reviewed_one_by_one(tab: Tab, model: ScriptedModel) -> None:
    """The first hunk is rejected in the merge view, the second accepted: only that one is written."""
    before = until(lambda: tab.file("greeter/text.py"))  # the page may still be writing the sample project
    assert before is not None
    after = before.replace("Hello", "Good morning").replace("Goodbye", "Farewell")
    asked = Says("Two changes.", calls=[call("write_file", path="greeter/text.py", content=after)])
    tab.say(model.script("hunks", asked, Says("Done.")))
    tab.press("Review the changes")
    tab.page.get_by_role("button", name="Reject", exact=True).and_(tab.page.locator("[name=reject]")).first.click()
    tab.page.locator("[name=accept]").first.click()
    tab.press("Apply the reviewed text")
    tab.ended()
    assert tab.file("greeter/text.py") == before.replace("Goodbye", "Farewell")


@pytest.mark.deep  # security/test_lost_updates.py has the rule
def test_a_save_between_the_card_and_the_approval_is_asked_about(tab: Tab, model: ScriptedModel) -> None:
    """As on a terminal and in an editor: what the user saved meanwhile is not thrown away."""
    before = until(lambda: tab.file("main.py"))
    write = call("write_file", path="main.py", content="print('new')\n")
    tab.say(model.script("page-lost", Says("", calls=[write]), Says("", calls=[write]), Says("Done.")))
    for agrees in (False, True):
        tab.page.locator(".call.asking .diff .added").get_by_text("print('new')").wait_for()
        saved = f"# saved by the user, {agrees}\n{before}"
        tab.save("main.py", saved)
        tab.press("Approve")
        dialog = tab.page.get_by_role("dialog")
        dialog.get_by_text("main.py was changed after it was shown to the user").wait_for()
        dialog.locator(".diff .removed").get_by_text(f"# saved by the user, {agrees}").wait_for()
        assert tab.file("main.py") == saved
        dialog.get_by_role("button", name="Approve" if agrees else "Reject", exact=True).click()
    tab.ended()
    assert tab.file("main.py") == "print('new')\n"
    assert "did not want the change any more" in str(model.requests["page-lost"][1])


def test_what_is_approved_is_seen_whole(tab: Tab, model: ScriptedModel) -> None:
    """The end of a long line is not hidden; nor is a diff shown of a folder in which the call is not executed."""
    content = f"x = 1{' ' * 3_000}; evil()\n"
    tab.say(model.script("long-line", Says("", calls=[call("write_file", path="main.py", content=content)])))
    card = tab.page.locator(".call.asking")
    card.get_by_text("Show 1,013 more characters").click()
    card.locator(".diff .added").get_by_text("; evil()").wait_for()
    tab.press("Files")
    tab.page.locator(".right header button.icon").click()
    tab.page.get_by_role("radio", name="by another client").check()
    tab.online()
    card.locator(".arguments").get_by_text("; evil()").wait_for()
    assert card.locator(".diff").count() == 0
    assert card.get_by_role("button", name="Review the changes").count() == 0


@pytest.mark.deep  # client/test_terminal.py rejects too
def test_a_rejection_tells_the_agent_why(tab: Tab, model: ScriptedModel) -> None:
    asked = Says("I delete it.", calls=[call("delete_file", path="main.py")])
    tab.say(model.script("rejected", asked, Says("I keep it.")))
    tab.press("Reject")
    tab.page.get_by_role("textbox", name="What should the agent do").fill("Keep main.py")
    tab.press("Reject")
    tab.ended()
    assert "Keep main.py" in str(model.requests["rejected"][-1])
    assert tab.file("main.py") is not None
    tab.page.reload()
    tab.page.locator(".call.rejected").get_by_text("Keep main.py").first.wait_for()
    assert tab.page.locator(".call").count() == 1


@pytest.mark.deep  # the client's own tests break its connection
def test_a_broken_connection_neither_loses_nor_doubles_text(tab: Tab, model: ScriptedModel) -> None:
    words = " ".join(f"word{n}" for n in range(400))
    tab.say(model.script("cut", Says(words, piece=12, delay=0.005)))
    tab.press("Inspector")
    for _ in range(3):
        seen = len("".join(tab.answers))
        until(lambda seen=seen: len("".join(tab.answers)) > min(seen + 60, len(words) - 1))  # type: ignore[misc]
        tab.press("Cut the socket")
    tab.ended()
    tab.online()
    assert tab.answers == [words]
    # Only the rows on the screen are elements: those of the connections, not as many as the answer had pieces.
    only = tab.page.get_by_role("searchbox", name="Filter frames")
    only.fill("open")
    tab.page.locator(".row.open").nth(1).wait_for()
    only.fill("")
    # A replay from the beginning changes nothing either.
    tab.press("Replay from")
    tab.page.locator(".row.repeat").first.wait_for()
    assert tab.answers == [words]
    tab.page.get_by_role("tab", name="Turns").click()
    assert tab.page.locator(".turns b").all_inner_texts() == ["[[cut]]"]
    go = threading.Event()
    tab.say(model.script("while-looking", Says("Yes.", until=go)))
    tab.page.locator(".turns b").get_by_text("[[while-looking]]").wait_for()  # while it is running
    go.set()
    tab.ended(2)
    tab.page.get_by_role("tab", name="Frames").click()
    tab.page.locator(".row").first.click()
    tab.page.get_by_role("region", name="Frame ").wait_for()
    tab.press("Clear")
    tab.page.get_by_role("region", name="Frame ").wait_for(state="detached")
    tab.page.get_by_text("0 frames, 0 B, 0 gaps, 0 repeats, 0 connections").wait_for()


@pytest.mark.deep
def test_after_a_failure_of_the_model_the_user_can_try_again(tab: Tab, model: ScriptedModel) -> None:
    script = model.script("page-retry", Says(status=400))
    tab.say(script)
    tab.page.get_by_role("button", name="Try again").wait_for()
    assert tab.page.locator(".failure b").inner_text().strip() == "The model failed."
    assert violations(tab) == []
    assert tab.page.locator(".failure p").inner_text().startswith("The model failed. Its provider answered")
    tab.press("Settings")
    tab.page.get_by_label("Language").select_option(label="Русский")
    assert tab.page.locator(".failure b").inner_text().strip() == "Сбой модели."
    tab.page.get_by_label("Язык").select_option(label="English")
    tab.page.keyboard.press("Escape")
    model.script("page-retry", Says("Now it works."))
    tab.press("Try again")
    tab.ended(2)
    assert tab.answers == ["Now it works."]
    assert tab.page.get_by_role("button", name="Try again").count() == 0
    tab.press("Inspector")
    tab.page.get_by_role("tab", name="Next request").click()
    shown = tab.page.get_by_role("region", name="Next request")
    shown.get_by_text(re.compile(r"About \d,\d{3} tokens")).wait_for()
    assert violations(tab) == []
    assert '"response_format"' in shown.inner_text()
    assert script.strip("[]") in shown.inner_text()


def test_a_hostile_answer_is_text(tab: Tab, model: ScriptedModel, tmp_path: object) -> None:
    """Nothing in it runs, loads or leads anywhere but to the web; what deceives a reader is made visible."""
    hostile = "\n\n".join(
        [
            "<script>window.owned = 1</script>",
            "<img src=x onerror='window.owned = 2'>",
            "<svg onload='window.owned = 3'><style>@import 'https://evil.test/x.css'</style></svg>",
            "<iframe srcdoc='<script>parent.owned = 4</script>'></iframe>",
            "![beacon](https://evil.test/beacon.png)",
            "![data](data:image/svg+xml,<svg/onload=alert(1)>)",
            "[click](javascript:window.owned=5) [data](data:text/html,<script>1</script>) [good](https://example.com/)",
            "<a href='javascript:window.owned=6'>x</a>",
            "[ref]\n\n[ref]: javascript:window.owned=7",
            "<math><mtext><table><mglyph><style><img src=x onerror='window.owned=8'>",
            "<form action='https://evil.test'><button>send</button></form>",
        ]
    )
    asked = Says(hostile, calls=[call("write_file", path="note.txt", content="a\u202eb\u2066c\u200bd\n")])
    tab.say(model.script("hostile", asked, Says("Done.")))
    card = tab.page.locator(".call.asking")
    card.wait_for()
    found = tab.run("""() => ({
      owned: window.owned,
      elements: [...document.querySelectorAll('.answer *')].map((element) => element.localName),
      links: [...document.querySelectorAll('.answer a')].map((link) => [link.href, link.rel, link.target]),
      handlers: [...document.querySelectorAll('.answer *')].flatMap((element) => element.getAttributeNames())
        .filter((name) => name.startsWith('on') || name === 'style' || name === 'src'),
    })""")
    assert found["owned"] is None
    forbidden = {"script", "img", "svg", "iframe", "style", "form", "math", "input", "object", "embed", "link", "base"}
    assert not {*found["elements"]} & (forbidden - {"svg"})  # The button that copies has an icon.
    assert {link for link, _, _ in found["links"]} == {"https://example.com/", "https://evil.test/x.css"}  # Typed out.
    assert {tuple(rest) for _, *rest in found["links"]} == {("noopener noreferrer nofollow", "_blank")}
    assert found["handlers"] == []
    shown = card.inner_text()
    assert "⟨U+202E⟩" in shown
    assert "⟨U+2066⟩" in shown
    assert "⟨U+200B⟩" in shown
    assert "\u202e" not in shown


#: Lets a page wait for its files until `window.letOpen()`.
SLOW_FILES = """
const open = navigator.storage.getDirectory.bind(navigator.storage);
const allowed = new Promise((done) => (window.letOpen = done));
navigator.storage.getDirectory = () => allowed.then(open);
"""


#: What a page leaves that is left while it writes the first file of the sample project.
BEGUN_SAMPLE = """async () => {
  let directory = await navigator.storage.getDirectory();
  for (const name of ['workspaces', 'sample']) directory = await directory.getDirectoryHandle(name, { create: true });
  const writable = await (await directory.getFileHandle('README.md', { create: true })).createWritable();
  await writable.close();
}"""


@pytest.mark.deep
def test_a_sample_project_that_was_begun_is_completed(tab: Tab) -> None:
    sample = until(lambda: tab.file("README.md"))
    tab.run(BEGUN_SAMPLE)
    assert tab.file("README.md") == ""
    tab.press("Files")
    tab.page.locator(".bar button[aria-expanded=false]").click()
    tab.press("Sample project")
    assert until(lambda: tab.file("README.md")) == sample


def test_a_reload_shows_the_same_conversation(open_tab: OpenTab, model: ScriptedModel) -> None:
    """In the middle of a turn: the text so far, the question and the call, which waited for the browser's files."""
    tab = open_tab()
    tab.page.add_init_script(SLOW_FILES)
    tab.page.reload()
    tab.online()
    go = threading.Event()
    asked = Says("First I read.", calls=[call("read_file", path="README.md")])
    tab.say(model.script("reload", asked, Says("And then I think.", until=go)))
    tab.page.locator(".call.running").wait_for()
    tab.run("window.letOpen()")
    tab.page.locator(".call.completed").wait_for()
    until(lambda: len(model.requests["reload"]) == 2)  # the result is at the server, not only in the page that goes
    tab.page.reload()
    tab.online()
    tab.page.locator(".call").wait_for()
    go.set()
    tab.ended()
    assert any("A small project" in str(request) for request in model.requests["reload"])
    assert tab.answers == ["First I read.", "And then I think."]
    assert tab.page.locator(".said").count() == 1
    tab.page.reload()
    tab.ended()
    assert tab.answers == ["First I read.", "And then I think."]
    assert tab.page.locator(".said").count() == 1


@pytest.mark.deep  # the test before reloads too
def test_a_turn_that_ends_while_the_page_loads_is_shown_whole(open_tab: OpenTab, model: ScriptedModel) -> None:
    """It is running when the page reads the history, and over when the page asks whether it runs."""
    tab = open_tab().online()
    go = threading.Event()
    asked = Says("First I read.", calls=[call("read_file", path="README.md")])
    tab.say(model.script("loads", asked, Says("And then I think.", until=go)))
    until(lambda: len(model.requests["loads"]) == 2)

    def answer_late(route: Any) -> None:
        response = route.fetch()
        if not go.is_set():
            go.set()
            other.ended()
        route.fulfill(response=response)

    other = open_tab(tab.session, beside=tab).online()
    tab.page.route("**/chat/history/**", answer_late)
    tab.page.reload()
    tab.ended()
    assert tab.answers == ["First I read.", "And then I think."]


@pytest.mark.deep
def test_a_message_is_sent_as_soon_as_the_server_is_connected(open_tab: OpenTab, model: ScriptedModel) -> None:
    tab = open_tab()
    held: list[tuple[Any, list[Any]]] = []

    def hold(socket: Any) -> None:
        said: list[Any] = []
        socket.on_message(lambda message: said.append(message))
        held.append((socket, said))

    tab.page.route_web_socket("**/ws/**", hold)
    tab.page.reload()
    tab.say(model.script("early", Says("Hello.")))
    tab.page.get_by_text("It is sent as soon as the server is connected.").wait_for()
    assert tab.page.locator(".composer .problem").inner_text() == "", "nothing is wrong"
    assert tab.page.locator(".said").count() == 0
    while not held:
        tab.page.wait_for_timeout(20)
    socket, said = held[-1]
    server = socket.connect_to_server()
    server.on_message(lambda message: socket.send(message))
    socket.on_message(lambda message: server.send(message))
    for message in said:
        server.send(message)
    tab.ended()
    assert tab.answers == ["Hello."]
    assert tab.page.get_by_role("textbox", name="Message").input_value() == ""


@pytest.mark.deep
def test_messages_wait_for_the_running_turn_and_can_be_withdrawn(tab: Tab, model: ScriptedModel) -> None:
    go = threading.Event()
    tab.say(model.script("busy", Says("First.", until=go)))
    tab.page.locator(".status.thinking").wait_for()
    tab.say(model.script("waits", Says("Second.")))
    tab.page.locator(".queue li").first.wait_for()
    tab.say(model.script("changed", Says("Third.")))
    tab.page.locator(".queue li").nth(1).wait_for()
    tab.page.locator(".queue li").nth(1).get_by_role("button", name="Edit").click()
    until(lambda: tab.page.locator(".queue li").count() == 1)
    tab.page.keyboard.type("!")
    assert tab.page.get_by_role("textbox", name="Message").input_value() == "[[changed]]!"
    assert violations(tab) == []
    tab.say(model.script("withdrawn", Says("Third.")))
    tab.page.locator(".queue li").nth(1).wait_for()
    tab.page.locator(".queue li").nth(1).get_by_role("button", name="Withdraw").click()
    until(lambda: tab.page.locator(".queue li").count() == 1)
    tab.press("Inspector")
    tab.page.locator(".row.in").get_by_text("withdrawn", exact=True).nth(1).wait_for()  # not only the page knows it
    go.set()
    tab.ended(2)
    assert tab.answers == ["First.", "Second."]
    assert [text.split("]]")[0][2:] for text in tab.page.locator(".said").all_inner_texts()] == ["busy", "waits"]
    assert not model.requests["withdrawn"]
    tab.page.reload()
    tab.ended(2)
    assert [text.split("]]")[0][2:] for text in tab.page.locator(".said").all_inner_texts()] == ["busy", "waits"]
    order = "() => [...document.querySelectorAll('.said, .answer')].map((it) => it.classList[0])"
    assert tab.run(order) == ["said", "answer", "said", "answer"]


@pytest.mark.deep
def test_the_agent_commits_in_a_repository_that_a_zip_brings(tab: Tab, model: ScriptedModel, tmp_path: Path) -> None:
    """Without a repository, the git tools say so."""
    tab.say(model.script("no-git", Says("", calls=[call("git.status")]), Says("None.")))
    tab.ended()
    assert "GIT_NOT_INITIALIZED" in str(model.requests["no-git"][-1])

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com"]
        command = ["git", *identity, *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    git("init", "--quiet", "--initial-branch=main")
    git("config", "user.name", "Ann")
    git("config", "user.email", "ann@example.com")
    (tmp_path / "a.txt").write_text("one\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "First")
    (tmp_path / "a.txt").write_text("two\n")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for file in tmp_path.rglob("*"):
            if file.is_file() and file.suffix != ".sample":
                archive.write(file, file.relative_to(tmp_path))
    tab.press("Files")
    tab.page.locator(".right header button.icon").click()
    tab.page.locator(".right input[type=file]").first.set_input_files(
        {"name": "repository.zip", "mimeType": "application/zip", "buffer": packed.getvalue()}
    )
    tab.page.locator(".tree").get_by_text("a.txt", exact=True).wait_for()
    tab.page.locator(".sheet").wait_for(state="detached")
    looks = Says("I look.", calls=[call("git.status"), call("git.diff", path="."), call("git.log")])
    commits = Says("I commit.", calls=[call("git.commit", message="Second", files=["a.txt"])])
    tab.say(model.script("git", looks, commits, Says("", calls=[call("git.log")]), Says("Done.")))
    tab.page.locator(".call.asking").wait_for()
    tab.press("Approve")
    tab.ended(2)
    before, after = str(model.requests["git"][1]), str(model.requests["git"][-1])
    assert "+two" in before
    assert "modified" in before
    assert "Second" in after
    assert "First" in after


@pytest.mark.deep
def test_two_windows_show_and_decide_the_same(open_tab: OpenTab, model: ScriptedModel) -> None:
    first = open_tab().online()
    second = open_tab(first.session, beside=first).online()
    asked = Says("I write.", calls=[call("write_file", path="two.txt", content="two\n")])
    first.say(model.script("two", asked, Says("Written.")))
    for one in (first, second):
        one.page.locator(".call.asking").wait_for()
    second.press("Approve")
    for one in (first, second):
        one.ended()
        assert one.answers == ["I write.", "Written."]
        assert one.file("two.txt") == "two\n"
    results = [frame for frame in model.requests["two"] if "two.txt" in str(frame)]
    assert results


def first_scripts() -> list[str]:
    """The scripts that the page loads at once: those that index.html names, and what these import statically."""
    manifest = json.loads((page_build.DIST / ".vite" / "manifest.json").read_text())
    found: dict[str, None] = {}

    def follow(name: str) -> None:
        chunk = manifest[name]
        if chunk["file"] not in found:
            found[chunk["file"]] = None
            for other in chunk.get("imports", ()):
                follow(other)

    follow("index.html")
    return list(found)


def test_the_script_is_small_until_the_editor_is_needed(built: None, capsys: pytest.CaptureFixture[str]) -> None:
    names = first_scripts()
    sizes = {name: len(zlib.compress((page_build.DIST / name).read_bytes(), 9)) for name in names}
    with capsys.disabled():
        sys.stdout.write(
            f"\nscripts of the page, compressed: {sum(sizes.values()) / 1000:.0f} KB in {len(names)} files\n"
        )
    assert sum(sizes.values()) < 150_000
