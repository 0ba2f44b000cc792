"""The held-out tasks: nobody who works on the product reads them, and every run of them is logged."""

from evals.suite.task import Task, named_first, replaced
from evals.suite.workspaces import CART, CONFIG, GEOMETRY, MAIN, NOTES, PRIMES, README, SERVER, STATS

_PRIMES_2 = replaced(PRIMES, ("1000, 1100", "2000, 2200"))

TASKS = (
    Task(
        "out-retries",
        "edit a line",
        "In config.json, change retries to 7.",
        {"config.json": CONFIG},
        {"config.json": (replaced(CONFIG, ('"retries": 3', '"retries": 7')),)},
    ),
    Task(
        "out-greeting",
        "edit a line",
        "Let greet in server.js say Welcome instead of Hello.",
        {"server.js": SERVER},
        {"server.js": (replaced(SERVER, ("Hello,", "Welcome,")),)},
    ),
    Task(
        "out-days-ru",
        "edit a line",
        "В notes.md замени 45 дней на 60 дней.",
        {"notes.md": NOTES},
        {"notes.md": (replaced(NOTES, ("45 дней", "60 дней")),)},
    ),
    Task(
        "out-create",
        "create a file",
        "Create docs/owner.txt with the single line: team-blue",
        {"README.md": README},
        {"docs/owner.txt": ("team-blue",)},
    ),
    Task(
        "out-rename",
        "rename",
        "Rename the function describe to summary in cart.py.",
        {"cart.py": CART},
        {"cart.py": (replaced(CART, ("describe(", "summary(")),)},
    ),
    Task(
        "out-rename-js",
        "rename",
        "Rename parseQuery to readQuery everywhere in server.js.",
        {"server.js": SERVER},
        {"server.js": (replaced(SERVER, ("parseQuery", "readQuery")),)},
    ),
    Task(
        "out-find",
        "find a definition",
        "Which file defines the class Cart?",
        {"shop/basket.py": CART, "shop/main.py": MAIN, "stats.py": STATS},
        facts=(named_first(r"basket\.py", r"main\.py|stats\.py"),),
        answer="shop/basket.py",
    ),
    Task(
        "out-run",
        "run and report",
        "Run `python3 primes.py` and report the checksum.",
        {"primes.py": _PRIMES_2},
        facts=(r"\b283\b",),
        answer="283",
    ),
    Task(
        "out-two",
        "edit two files",
        "Set the retries in config.json to 5 and MAX_ITEMS in cart.py to 80.",
        {"config.json": CONFIG, "cart.py": CART},
        {
            "config.json": (replaced(CONFIG, ('"retries": 3', '"retries": 5')),),
            "cart.py": (replaced(CART, ("MAX_ITEMS = 50", "MAX_ITEMS = 80")),),
        },
    ),
    Task(
        "out-ask",
        "answer from a file",
        "At what time are old values deleted, according to README.md?",
        {"README.md": README},
        facts=(r"\b0?3:15\b",),
        answer="At 03:15.",
    ),
    Task(
        "out-ask-js",
        "answer from a file",
        "Which function in geometry.py calls area?",
        {"geometry.py": GEOMETRY},
        facts=(r"\bring\b",),
        answer="ring",
    ),
    Task(
        "out-plain",
        "without tools",
        "Which keyword begins a function definition in Python? Just answer.",
        {"cart.py": CART},
        facts=(r"\bdef\b",),
        answer="def",
    ),
)
