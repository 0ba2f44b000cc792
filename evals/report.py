"""Makes a results folder's `results.json`, `results.md` and `index.html` from its runs and traces.

What models and files say is not trusted: it stands in the page as data, which a script shows as text.
"""

import base64
import hashlib
import json
import re
import statistics as plain
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from evals import rows
from evals.runner import read
from evals.statistics import paired_difference, wilson

Run = Mapping[str, Any]

_MOST_CHARS = 20_000
#: The labels of attempts with a half of the rules, and with the rest of them.
HALVES = ("one half", "other half")
#: What is added up over the attempts. Older folders have no invalid answers.
_COUNTED = ("invalid_answers", "repairs", "failed_calls", "failed_edits")
_SECRETS = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{8,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}"
    # Names in code may begin like these, but seldom have a digit. (Only so far ahead, or "hf_hf_hf_…" takes for ever.)
    r"|(?:xai|gsk|hf|r8|nvapi|glpat)[-_](?=[A-Za-z_-]{0,60}[0-9])[A-Za-z0-9_-]{16,}"
    r"|xox[abp]-[A-Za-z0-9-]{10,}|AIza[A-Za-z0-9_-]{20,}|(?:AKIA|ASIA)[A-Z0-9]{12,})"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{8,}"
)


def masked(text: str) -> str:
    """`text` without what looks like a key."""
    return _SECRETS.sub("(key)", text)


def write(folder: Path) -> str:
    """Write the three files. Returns the Markdown."""
    runs = read(folder)
    found = summary(runs)
    told = masked(markdown(found))
    (folder / "results.json").write_text(json.dumps(_safe(found), ensure_ascii=False, indent=2) + "\n", "utf-8")
    (folder / "results.md").write_text(told, "utf-8")
    (folder / "index.html").write_text(page(folder, runs, told), "utf-8")
    return told


def summary(runs: Sequence[Run]) -> dict[str, Any]:
    """By label: what was solved and what it took. Pairs: each label against the first, by task."""
    by_label: dict[str, list[Run]] = {}
    for run in runs:
        by_label.setdefault(run["label"], []).append(run)
    labels = {label: _label(found) for label, found in by_label.items()}
    pairs = []
    (first, before), *others = list(by_label.items()) or [("", [])]
    for label, after in others:
        one, other = _shares(before), _shares(after)
        both = [(one[task], other[task]) for task in one if task in other]
        if both:
            mean, low, high = paired_difference(both)
            changed = {"gained": sum(a > b for b, a in both), "lost": sum(a < b for b, a in both)}
            pairs.append(
                {"from": first, "to": label, "tasks": len(both), "mean": mean, "low": low, "high": high, **changed}
            )
    return {"labels": labels, "pairs": pairs, "rules": _rules(runs)}


def _rules(runs: Iterable[Run]) -> dict[str, dict[str, Any]]:
    """Of each rule that halves of the rules measured: solved with it and without it, and the difference by task."""
    tried: dict[tuple[str, int], dict[str, Run]] = {}
    for run in runs:
        if run["label"] in HALVES and not run["error"]:
            tried.setdefault((run["task"], run["attempt"]), {})[run["label"]] = run
    runs = [run for both in tried.values() if len(both) == len(HALVES) for run in both.values()]
    found: dict[str, dict[str, Any]] = {}
    for rule in sorted({name for run in runs for name in run["variants"]}):
        without = [run for run in runs if rule in run["variants"]]
        having = [run for run in runs if rule not in run["variants"]]
        one, other = _shares(without), _shares(having)
        mean, low, high = paired_difference([(one[task], other[task]) for task in one])
        solved = {"without": sum(run["solved"] for run in without), "with": sum(run["solved"] for run in having)}
        found[rule.removeprefix("no-")] = {"pairs": len(without), **solved, "mean": mean, "low": low, "high": high}
    return found


def _shares(runs: Iterable[Run]) -> dict[str, float]:
    """By task, the share of its attempts that solved it."""
    attempts: dict[str, list[bool]] = {}
    for run in runs:
        if not run["error"]:
            attempts.setdefault(run["task"], []).append(run["solved"])
    return {task: sum(found) / len(found) for task, found in attempts.items()}


def _label(runs: Sequence[Run]) -> dict[str, Any]:
    good = [run for run in runs if not run["error"]]
    solved = sum(run["solved"] for run in good)
    costs = [run["cost"] for run in runs if run["cost"] is not None]
    prompt = sum(run["prompt_tokens"] for run in good)

    def part(key: Callable[[Run], str]) -> dict[str, list[int]]:
        names = sorted({key(run) for run in good})
        return {
            name: [sum(run["solved"] for run in good if key(run) == name), sum(key(run) == name for run in good)]
            for name in names
        }

    def mean(name: str) -> float:
        return round(sum(run[name] or 0 for run in good) / max(1, len(good)), 2)

    low, high = wilson(solved, len(good))
    return {
        "runs": len(good),
        "solved": solved,
        "low": low,
        "high": high,
        "harness_errors": len(runs) - len(good),
        "kinds": part(lambda run: run["kind"]),
        "languages": part(lambda run: run["language"]),
        "held_out": part(lambda run: "held out" if run["held_out"] else "held in"),
        "ends": dict(Counter(run["end"] for run in good)),
        "steps": mean("steps"),
        "prompt_tokens": prompt,
        "completion_tokens": sum(run["completion_tokens"] for run in good),
        "cached_share": round(sum(run["cached_tokens"] for run in good) / prompt, 3) if prompt else 0,
        "cost": round(sum(costs), 6) if costs else None,
        "cost_per_solved": round(sum(costs) / solved, 6) if costs and solved else None,
        "seconds_median": round(plain.median(run["seconds"] for run in good), 1) if good else 0,
        "questions_per_solved": round(sum(run["questions"] for run in good) / solved, 2) if solved else None,
        "calls": sum(sum(run["calls"].values()) for run in good),
        "problems": dict(Counter(run["problem"] for run in good if run["end"] == "error" and run.get("problem"))),
        **{name: sum(run.get(name, 0) for run in good) for name in _COUNTED},
        "repeated_most": max((run["repeated"] for run in good), default=0),
    }


def markdown(found: Mapping[str, Any]) -> str:
    """The tables, for a terminal and for a page of documents."""
    head = ("", "solved", "95 %", "steps", "tokens in", "cached", "out", "median s", "$/solved")
    lines: list[Sequence[str]] = [
        (
            *(label, f"{it['solved']}/{it['runs']}", f"{it['low']:.0%} to {it['high']:.0%}", f"{it['steps']:g}"),
            *(f"{it['prompt_tokens']:,}", f"{it['cached_share']:.0%}", f"{it['completion_tokens']:,}"),
            *(f"{it['seconds_median']:g}", "" if it["cost_per_solved"] is None else f"{it['cost_per_solved']:.4f}"),
        )
        for label, it in found["labels"].items()
    ]
    told = [_table(head, lines)]
    kinds = sorted({kind for it in found["labels"].values() for kind in it["kinds"]})
    split = [("kinds", kind) for kind in kinds] + [("languages", name) for name in ("en", "ru")]
    split += [("held_out", name) for name in ("held in", "held out")]
    lines = [
        (name, *("/".join(map(str, it[part].get(name, ("–",)))) for it in found["labels"].values()))
        for part, name in split
    ]
    told.append(_table(("solved", *found["labels"]), [row for row in lines if set(row[1:]) != {"–"}]))
    names = (
        "questions_per_solved",
        "calls",
        *_COUNTED,
        "repeated_most",
        "harness_errors",
    )
    lines = [(name.replace("_", " "), *(_shown(it[name]) for it in found["labels"].values())) for name in names]
    ends = sorted({end for it in found["labels"].values() for end in it["ends"]})
    lines += [(f"ended: {end}", *(str(it["ends"].get(end, 0)) for it in found["labels"].values())) for end in ends]
    problems = sorted({problem for it in found["labels"].values() for problem in it["problems"]})
    lines += [
        (f"error: {problem}", *(str(it["problems"].get(problem, 0)) for it in found["labels"].values()))
        for problem in problems
    ]
    told.append(_table(("", *found["labels"]), lines))
    for pair in found["pairs"]:
        told.append(
            f"{pair['from']} → {pair['to']}: {pair['mean']:+.0%} ({pair['low']:+.0%} to {pair['high']:+.0%}), "
            f"{pair['tasks']} tasks, {pair['gained']} gained, {pair['lost']} lost\n"
        )
    rules = [
        (
            *(rule, str(it["pairs"]), str(it["without"]), str(it["with"])),
            f"{it['mean']:+.0%} ({it['low']:+.0%} to {it['high']:+.0%})",
        )
        for rule, it in found["rules"].items()
    ]
    if rules:
        told.append(_table(("rule", "pairs", "solved without", "with", "difference"), rules))
    return "\n".join(told)


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in (head, *rows)]
    widths = [max(len(row[n]) for row in cells) for n in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines) + "\n"


def page(folder: Path, runs: Sequence[Run], told: str) -> str:
    """One file in which each attempt can be read. Nothing in it is loaded from elsewhere."""
    shown = [{**_safe(run), "events": _safe(rows.read(folder / str(run["trace"])))} for run in runs]
    # Inside a script, only `<` could end it.
    data = json.dumps({"runs": shown, "told": told}, ensure_ascii=False).replace("<", "\\u003c")
    source = files("evals")
    style, script = (source.joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width">\n<title>Evaluation</title>\n'
        f"<style>{style}</style>\n</head>\n<body>\n<noscript>This page needs JavaScript.</noscript>\n"
        f'<script type="application/json" id="data">{data}</script>\n<script>{script}</script>\n</body>\n</html>\n'
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _safe(value: Any) -> Any:
    """The same with keys masked, then with every long text cut, which is said in it.

    Before it is JSON: there a line's first key follows the n of an escaped line break, as if it went on a word.
    """
    if isinstance(value, str):
        value = masked(value)
        left = len(value) - _MOST_CHARS
        return value if left <= 0 else f"{value[:_MOST_CHARS]}\n… {left:,} characters more are in the results folder"
    if isinstance(value, Mapping):
        return {masked(name): _safe(each) for name, each in value.items()}
    return [_safe(each) for each in value] if isinstance(value, list) else value
