"""The table and the plots."""

import math
import re
import statistics
from collections.abc import Mapping, Sequence

from benchmarks.peers.measures import ROWS, SESSIONS
from benchmarks.peers.systems import BY_HAND, OURS
from benchmarks.rig import ROOT
from infra.docs.markdown import table

PAGE = ROOT / "docs/performance.md"
#: From seconds, bytes, … to what is printed.
UNITS = {"ms": (1000, "ms"), "s": (1, "s"), "MB": (1e-6, "MB"), "turns/s": (1, "")}

#: Per row and server, a figure per round; None where it has failed.
Results = Mapping[str, Mapping[str, Sequence[float | None]]]
#: Per server, its points.
Curves = dict[str, list[tuple[float, float]]]


def lines(results: Results, names: Sequence[str]) -> list[str]:
    """The table: the medians of the rounds (of failures the sum), with their ratio to the server by hand."""
    rows = []
    for key, row in ROWS.items():
        if key in results:
            rows.append([row.title, *(_cell(results[key], name, row.unit) for name in names)])
    return table(["", *names], rows)


def _cell(row: Mapping[str, Sequence[float | None]], name: str, unit: str) -> str:
    figures = [figure for figure in row.get(name, ()) if figure is not None]
    if not figures:
        return "–"
    if unit == "count":
        return f"{sum(figures):.0f}"
    scale, word = UNITS[unit]
    value = statistics.median(figures) * scale
    digits = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    text = f"{value:,.{digits}f} {word}".strip()
    # Of each round on its own: the machine is not equally fast in all of them.
    pairs = [(mine, its) for mine, its in zip(row[name], row.get(BY_HAND, ()), strict=False) if mine and its]
    if name == BY_HAND or not pairs:
        return text
    return f"{text} ({statistics.median(mine / its for mine, its in pairs):.2g} ×)"


def write_table(text: Sequence[str]) -> None:
    """Replace the table of the page."""
    page = PAGE.read_text(encoding="utf-8")
    new, found = re.subn(
        r"(?<=<!-- peers -->\n).*?(?=<!-- /peers -->)", lambda _: "\n".join(text) + "\n", page, flags=re.S
    )
    assert found == 1, f"{PAGE} has no place for the table"
    PAGE.write_text(new, encoding="utf-8")


def plot_first_tokens(times: Mapping[str, Sequence[float]]) -> None:
    """Draw first tokens against message numbers. `times`: per server, the first token of each message, in order."""
    step = max(1, max(map(len, times.values()), default=0) // 40)
    curves: Curves = {}
    for name, each in times.items():
        for start in range(0, len(each) - step + 1, step):
            median = statistics.median(each[start : start + step])
            curves.setdefault(name, []).append((start + step / 2, median * 1000))
    _plot("first-token", curves, "message of the session", "first token, ms", log_y=True)


def plot_rates(results: Results) -> None:
    """Draw turns a second against sessions."""
    curves: Curves = {}
    for sessions in SESSIONS:
        for name, figures in results.get(f"rate_{sessions}", {}).items():
            if known := [figure for figure in figures if figure is not None]:
                curves.setdefault(name, []).append((sessions, statistics.median(known)))
    _plot("turns", curves, "sessions, without pauses", "turns a second", log_x=True)


def _plot(
    name: str,
    curves: Curves,
    x_label: str,
    y_label: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
) -> None:
    """Write docs/NAME.svg, if there is anything to draw."""
    if not curves:
        return
    import matplotlib

    # Text stays text, and the same figures give the same file.
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif"})
    from matplotlib import pyplot
    from matplotlib.ticker import ScalarFormatter

    figure, axes = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
    for label, points in curves.items():
        axes.plot(
            *zip(*points, strict=True),
            label=label,
            linewidth=2.2 if label == OURS else 1.3,
            marker="." if log_x else "",
        )
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    if log_x:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(ScalarFormatter())
    if log_y:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(ScalarFormatter())
    else:
        axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="small", frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(ROOT / f"docs/{name}.svg", metadata={"Date": None}, facecolor="white")
    pyplot.close(figure)
