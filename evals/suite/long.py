"""Many small steps, and contexts that are larger than a model's."""

from evals.suite.task import Files, Task

_COUNTRIES = (
    *("Austria", "Belgium", "Croatia", "Denmark", "Estonia", "Finland", "Greece", "Hungary", "Ireland", "Latvia"),
    *("Malta", "Norway", "Poland", "Romania", "Serbia", "Turkey", "Ukraine", "Albania", "Cyprus", "France"),
    *("Germany", "Iceland", "Italy", "Lithuania", "Moldova", "Portugal", "Slovakia", "Slovenia", "Spain", "Sweden"),
)


def _sheet(country: str, number: int) -> str:
    plug, voltage = ("C", 220) if number % 2 else ("F", 230)
    return f"# {country}\n\nplug: type {plug}\nvoltage: {voltage}\ncode: {number * 37 % 1000:03}\n"


def _sheets(count: int) -> Files:
    return {f"sheets/{name.lower()}.md": _sheet(name, n) for n, name in enumerate(_COUNTRIES[:count])}


def _log(lines: int, needle: dict[int, str]) -> str:
    """A log of so many lines, with some others in it. 1,000 lines are about 21,000 tokens."""
    usual = "2026-03-{day:02} {hour:02}:{minute:02}:07 worker-{worker} handled request {n} in {ms} ms, status 200"
    texts = (
        needle.get(n)
        or usual.format(day=1 + n // 1440 % 28, hour=n // 60 % 24, minute=n % 60, worker=n % 7, n=n, ms=n * 7919 % 900)
        for n in range(lines)
    )
    return "".join(text + "\n" for text in texts)


_FAILURE = "2026-03-04 11:52:07 worker-3 lost the database: connection pool 'orders' exhausted after 41 s"
_CHANGED: dict[str, tuple[str, ...]] = {
    path: (text.replace("voltage: 220", "voltage: 230"),)
    for path, text in _sheets(30).items()
    if "voltage: 220" in text
}


def _needle(name: str, lines: int) -> Task:
    return Task(
        name,
        "long",
        "server.log has one line about a lost database. Which worker was it, and after how many seconds was the pool "
        "exhausted?",
        {"server.log": _log(lines, {lines * 3 // 5: _FAILURE})},
        facts=(r"worker.{0,3}3\b|\b3\b.{0,20}worker", r"\b41\b"),
        answer="worker-3, after 41 seconds.",
        limit_s=1_200,
    )


TASKS = (
    Task(
        "long-voltages",
        "long",
        "Every file in sheets/ has a line with the voltage. Where it says 220, make it 230. Change nothing else.",
        _sheets(30),
        _CHANGED,
        limit_s=1_800,
    ),
    Task(
        "long-index",
        "long",
        "Write sheets/INDEX.md with one line for every country in sheets/, in alphabetical order: the country, a "
        'colon, a space and its code, such as "Austria: 000".',
        _sheets(30),
        {
            "sheets/INDEX.md": (
                "\n".join(sorted(f"{name}: {n * 37 % 1000:03}" for n, name in enumerate(_COUNTRIES[:30]))),
            )
        },
        limit_s=1_800,
    ),
    _needle("long-log-8k", 420),
    _needle("long-log-32k", 1_600),
    _needle("long-log-128k", 6_200),
)
