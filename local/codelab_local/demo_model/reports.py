"""Answers from tool results: what a file contains, how a command ended, what failed and why."""

import json
from collections.abc import Sequence
from typing import Any

from codelab_local.demo_model.conversation import Call
from codelab_local.demo_model.phrases import Language, names, plural_entries, plural_lines, say
from codelab_local.demo_model.source import LANGUAGES, extension, outline

READ = frozenset({"read_file"})
WRITE = frozenset({"write_file", "write_to_file", "create_file"})
RUN = frozenset({"run_command", "execute_command", "run_persistent"})


def content_of(call: Call) -> str:
    """The text of a file that was read."""
    result = call.result
    if isinstance(result, dict):
        for key in ("content", "text", "data"):
            if isinstance(result.get(key), str):
                return str(result[key])
        return json.dumps(result, ensure_ascii=False, indent=2)
    return result if isinstance(result, str) else "" if result is None else json.dumps(result, ensure_ascii=False)


def report(calls: Sequence[Call], language: Language, changing: bool = False, compare: bool = False) -> str:
    """One answer about all of `calls`. `changing`: files that were read first are changed, not created."""
    if changing and any(call.tool in WRITE for call in calls):
        calls = [call for call in calls if call.tool not in READ or call.status != "completed"]
    parts = list(dict.fromkeys(_one(call, language, changing) for call in calls))
    read = [call for call in calls if call.tool in READ and call.status == "completed"]
    if compare and len(read) > 1:
        parts.append(_compared(read[0], read[1], language))
    return "\n\n".join(parts)


def _one(call: Call, language: Language, changing: bool) -> str:
    path = call.path or "."
    command = str(call.arguments.get("command", ""))
    if call.status == "pending":
        return say("no_result", language, tool=call.tool)
    if call.status == "rejected":
        if call.tool in WRITE:
            return say("reject_change" if changing else "reject_create", language, path=path)
        if call.tool in RUN:
            return say("reject_run", language)
        return say("reject_delete" if call.tool == "delete_file" else "reject", language, path=path)
    if call.status == "failed":
        reason = ": ".join(part for part in (call.code, call.message.rstrip(".")) if part)
        reason = reason or say("unknown_reason", language)
        key = "fail_read" if call.tool in READ else "fail_write" if call.tool in WRITE else "fail"
        return say(
            "fail_run" if call.tool in RUN else key, language, path=path, command=command, tool=call.tool, reason=reason
        )
    if call.tool in READ:
        return _file(call, language)
    if call.tool in WRITE:
        return say(("changed" if changing else "written") + ("_edited" if call.edited else ""), language, path=path)
    if call.tool in RUN:
        return _ran(call, command, language)
    if call.tool == "list_files":
        return _listed(call, path, language)
    if call.tool == "git.diff":
        return _diff(call, language)
    if call.tool in {"delete_file", "create_directory", "move_file", "git.commit", "apply_patch"}:
        edited = " " + say("edited", language) if call.edited else ""
        return say("done", language, tool=call.tool, path=call.path + edited).replace(" .", ".")
    body = call.result if isinstance(call.result, str) else json.dumps(call.result, ensure_ascii=False, indent=2)
    return f"{say('result', language, tool=call.tool)}\n```\n{_tail(body, 30)}\n```"


def _file(call: Call, language: Language) -> str:
    content = content_of(call)
    path = call.path
    if not content.strip():
        return say("empty", language, path=path)
    seen = outline(path, content)
    facts = ", ".join(part for part in (plural_lines(seen.lines, language), seen.language) if part)
    lines = [say("read", language, path=path, facts=facts)]
    for key in ("functions", "classes", "imports", "headings"):
        if found := getattr(seen, key):
            lines.append(say(key, language, names=names(found, language)))
    if len(lines) == 1 and seen.language not in {"text", "CSV"}:
        lines.append(say("nothing_found", language))
    fence = "````" if "```" in content[:2_000] else "```"
    mark = extension(path) if extension(path) in LANGUAGES else ""
    lines.append(say("begins", language))
    return " ".join(lines) + f"\n{fence}{mark}\n" + "\n".join(seen.first_lines) + f"\n{fence}"


def _compared(left: Call, right: Call, language: Language) -> str:
    first, second = content_of(left).splitlines(), content_of(right).splitlines()
    if first == second:
        return say("same", language, paths=f"{left.path}, {right.path}")
    ours, theirs = set(first), set(second)
    return say(
        "compared", language, left=left.path, right=right.path,
        common=len(ours & theirs), only_left=len(ours - theirs), only_right=len(theirs - ours),
    )  # fmt: skip


def _ran(call: Call, command: str, language: Language) -> str:
    result = call.result if isinstance(call.result, dict) else {"stdout": str(call.result or "")}
    code = result.get("exit_code", result.get("exitCode", result.get("code", 0)))
    if code is None:
        head = say("ran_signal", language, command=command, code=result.get("signal") or "?")
    else:
        head = say("ran", language, command=command, code=code)
    output = "\n".join(
        str(result[key]).rstrip() for key in ("stdout", "output", "stderr") if str(result.get(key) or "").strip()
    )
    if not output:
        return f"{head} {say('no_output', language)}"
    return f"{head} {say('output', language)}\n```\n{_tail(output, 12)}\n```"


def _tail(text: str, lines: int) -> str:
    return "\n".join(line[:300] for line in text.splitlines()[-lines:])


def _listed(call: Call, path: str, language: Language) -> str:
    result: Any = call.result
    if isinstance(result, dict):
        result = next((result[key] for key in ("files", "entries", "items") if isinstance(result.get(key), list)), [])
    shown = []
    for entry in result if isinstance(result, list) else []:
        if isinstance(entry, dict):
            name = str(entry.get("path") or entry.get("name") or "?")
            shown.append(name + ("/" if entry.get("type") == "directory" and not name.endswith("/") else ""))
        else:
            shown.append(str(entry))
    if not shown:
        return say("no_files", language, path=path)
    more = [f"- {say('and_more', language, count=len(shown) - 50)}"] if len(shown) > 50 else []
    head = say("files", language, path=path, count=plural_entries(len(shown), language))
    return "\n".join([head, *(f"- {name}" for name in shown[:50]), *more])


def _diff(call: Call, language: Language) -> str:
    text = str(call.result.get("diff") or "") if isinstance(call.result, dict) else str(call.result or "")
    if not text.strip():
        return say("no_diff", language)
    lines = text.splitlines()
    files = tuple(line.rsplit(" b/", 1)[-1] for line in lines if line.startswith("diff --git"))
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    head = say("diff", language, files=names(files, language) or "?", added=added, removed=removed)
    return f"{head}\n```diff\n" + "\n".join(line[:200] for line in lines[:40]) + "\n```"
