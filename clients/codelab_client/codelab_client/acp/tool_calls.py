"""How a call is shown: its title, kind, places and content, in ACP's terms. No I/O."""

import json
import re
from collections.abc import Mapping
from typing import Any

from codelab_client.differences import Difference, spelled_out
from codelab_client.execution import ToolOutcome
from codelab_client.folders import Folders
from codelab_client.safe_text import exact, exact_line, safe, safe_line
from codelab_client.safe_text import shortened as shortened_line
from codelab_client.session import events as on
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.paths import components, joined

_KINDS = {
    "read_file": "read",
    "list_files": "read",
    "find_files": "search",
    "search_in_project": "search",
    "write_file": "edit",
    "edit_file": "edit",
    "apply_patch": "edit",
    "apply_patch_review": "edit",
    "create_directory": "edit",
    "delete_file": "delete",
    "move_file": "move",
    "run_command": "execute",
    "run_persistent": "execute",
    "read_process": "execute",
    "kill_process": "execute",
    "fetch_url": "fetch",
    "git.diff": "read",
    "git.status": "read",
    "git.log": "read",
    "update_plan": "think",
    "delegate": "think",
    "propose_plan": "switch_mode",
}
_VERBS = {
    "read_file": "Read {path}",
    "list_files": "List {path}",
    "find_files": "Find {glob}",
    "search_in_project": "Search for {query}",
    "write_file": "Write {path}",
    "edit_file": "Edit {path}",
    "create_directory": "Create the folder {path}",
    "delete_file": "Delete {path}",
    "move_file": "Move {from} to {to}",
    "run_command": "{command}",
    "run_persistent": "Start {command}",
    "kill_process": "Stop the process {process_id}",
    "git.commit": "Commit: {message}",
    "fetch_url": "Fetch {url}",
    "propose_plan": "A plan",
    "delegate": "{agent}: {task}",
}
_PATHS = ("path", "from", "to")
#: Characters of a title, and of a text that a tool call shows.
_TITLE_CHARS = 300
_SHOWN_CHARS = 20_000
#: Characters of the JSON of a call's arguments and result, as the editor may show them on demand.
_RAW_CHARS = 100_000
#: Images that an editor is shown, and the longest base64 of one.
_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_IMAGE_CHARS = 2_000_000

Fields = dict[str, Any]


def announced(tool: str, arguments: Mapping[str, Any], folders: Folders, maker: str = "") -> Fields:
    """The fields that say what a call is: title, kind, locations and rawInput. maker: whose it is, before the title.

    They come from the call itself: a frame's own title could say something else than what is executed.
    """
    return {
        "title": shortened_line(f"{maker}{exact_line(_title(tool, arguments))}", _TITLE_CHARS),
        "kind": _KINDS.get(tool, "other"),
        "locations": _locations(tool, arguments, folders),
        "rawInput": _raw(dict(arguments)),
    }


def described(tool: str, arguments: Mapping[str, Any]) -> list[Fields]:
    """What a user must see to decide about a call that changes no text: the whole command, or all arguments."""
    if tool in ("run_command", "run_persistent"):
        cwd = arguments.get("cwd", ".")
        other_arguments = {name: value for name, value in arguments.items() if name not in ("command", "cwd")}
        texts = [
            fenced(exact(arguments.get("command", ""))),
            *([] if cwd in (".", "") else [f"in\n{fenced(exact_line(cwd))}"]),
            *([_as_json(other_arguments)] if other_arguments else []),
        ]
        return [shown("\n".join(texts))]
    if tool == "propose_plan" and arguments.keys() <= {"steps", "explanation"}:
        return [shown(_plan(arguments))]
    if tool == "apply_patch" and isinstance(arguments.get("diff"), str):
        return [differing(spelled_out(arguments["diff"].removesuffix("\n").split("\n")))]
    return [shown(_as_json(arguments))]


def _plan(arguments: Mapping[str, Any]) -> str:
    steps, explanation = arguments.get("steps"), arguments.get("explanation")
    lines = [f"{number}. {exact_line(step)}" for number, step in enumerate(steps if isinstance(steps, list) else [], 1)]
    return "\n\n".join([*([exact(explanation)] if explanation else []), "\n".join(lines)])


def differing(difference: Difference) -> Fields:
    """A difference, spelled out, as text."""
    lines = fenced("\n".join(difference.lines), "diff") if difference.lines else ""
    return shown("\n\n".join(part for part in (*difference.notes, lines) if part))


def _as_json(arguments: Mapping[str, Any]) -> str:
    return fenced(exact(json.dumps(dict(arguments), indent=2, ensure_ascii=False)), "json")


def finished(outcome: ToolOutcome, lasting_content: list[Fields]) -> Fields:
    """The fields of a call that has ended. lasting_content: the content that stays, as its diff or its terminal."""
    if outcome.error is not None:
        error_text = shown(f"{safe_line(outcome.error.code)}: {safe(outcome.error.message)[:2_000]}")
        return {"status": "failed", "content": [*lasting_content, error_text]}
    content = (
        lasting_content or [shown(fenced(shortened(text)))] if (text := _output(outcome.result)) else lasting_content
    )
    result, images = _without_images(outcome.result)
    return {"status": "completed", "content": [*content, *images], "rawOutput": _raw(result)}


def _without_images(result: Any) -> tuple[Any, list[Fields]]:
    """A result, and the images in it as the editor shows them. Their data would fill its raw form."""
    images = result.get("images") if isinstance(result, dict) else None
    if not isinstance(images, list):
        return result, []
    blocks = [
        {"type": "content", "content": {"type": "image", "mimeType": image["media_type"], "data": image["data"]}}
        for image in images
        if isinstance(image, dict)
        and image.get("media_type") in _IMAGE_TYPES
        and isinstance(image.get("data"), str)
        and len(image["data"]) <= _IMAGE_CHARS
    ]
    types = [image.get("media_type") if isinstance(image, dict) else None for image in images]
    return {**result, "images": types}, blocks


def settled(event: on.CallUpdate, lasting_content: list[Fields]) -> Fields:
    """The fields of a call that this client has not executed, with its outcome if the server tells it."""
    if event.outcome is not None:
        return finished(event.outcome, lasting_content) | ended_elsewhere(event.state)
    if event.feedback:
        return {**ended_elsewhere(event.state), "content": [*lasting_content, shown(safe(event.feedback)[:2_000])]}
    return ended_elsewhere(event.state)


def ended_elsewhere(state: str) -> Fields:
    """The fields of a call that another client, a timeout or a cancel has ended."""
    return {"status": "completed" if state == "completed" else "failed"}


def shown(text: str) -> Fields:
    """A text as a tool call's content."""
    return {"type": "content", "content": {"type": "text", "text": text}}


def fenced(text: str, language: str = "") -> str:
    """A text as a Markdown block of code, which nothing in it can end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


def shortened(text: str) -> str:
    """The beginning and the end of a long text."""
    half_length = _SHOWN_CHARS // 2
    if len(text) <= 2 * half_length:
        return text
    return f"{text[:half_length]}\n… {len(text) - 2 * half_length:,} characters more …\n{text[-half_length:]}"


def place(path: str, folders: Folders) -> str | None:
    """The absolute path of a file that a call names; None if it leads out of the folders."""
    try:
        return str(folders.absolute(components(path)))
    except ToolFailure:
        return None


def _title(tool: str, arguments: Mapping[str, Any]) -> str:
    if tool in ("apply_patch", "apply_patch_review") and (paths := _patched(arguments)):
        return f"{'Patch' if tool == 'apply_patch' else 'Review a patch of'} {', '.join(paths)}"
    form = _VERBS.get(tool)
    if form is not None and all(isinstance(arguments.get(name), str) for name in re.findall(r"{(\w+)}", form)):
        title = re.sub(r"{(\w+)}", lambda match: str(arguments[match[1]]), form)
        cwd = arguments.get("cwd")
        return title if cwd in (None, "", ".") else f"In {cwd}: {title}"  # some editors show nothing else
    path = arguments.get("path")
    return f"{tool} {path}" if isinstance(path, str) else tool


def _locations(tool: str, arguments: Mapping[str, Any], folders: Folders) -> list[Fields]:
    paths = [arguments.get(name) for name in _PATHS]
    if tool in ("apply_patch", "apply_patch_review"):
        paths += _patched(arguments)
    places = [place(path, folders) for path in paths[:50] if isinstance(path, str)]
    return [{"path": path} for path in dict.fromkeys(places) if path is not None]


def _patched(arguments: Mapping[str, Any]) -> list[str]:
    """The files of a diff; none if it is not one."""
    from codelab_client.tools import patches  # late, because most calls are no patches

    try:
        files = patches.parse(str(arguments.get("diff", "")))
    except ToolFailure:
        return []
    names = [joined(names) for file in files for names in (file.old, file.new) if names]
    return list(dict.fromkeys(names))


def _output(result: Any) -> str:
    """What a result says, as text."""
    if not isinstance(result, dict):
        return "" if result is None else safe(json.dumps(result, ensure_ascii=False))
    for name in ("content", "diff", "message"):
        if isinstance(result.get(name), str):
            return safe(result[name])
    if "stdout" in result or "stderr" in result:
        return safe("\n".join(str(result[name]) for name in ("stdout", "stderr") if result.get(name)))
    return "" if result.keys() <= {"success"} else safe(json.dumps(result, indent=2, ensure_ascii=False))


def _raw(value: Any) -> Any:
    """The value itself, or the beginning of its JSON if that is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return value if len(text) <= _RAW_CHARS else {"truncated": text[:_RAW_CHARS]}
