"""The tasks that anyone may look at while working on the product."""

from evals.suite.task import Task, named_first, replaced
from evals.suite.workspaces import CART, CONFIG, GEOMETRY, MAIN, NOTES, PRIMES, README, SERVER, STATS


def _edit(name: str, path: str, text: str, message: str, *pairs: tuple[str, str], kind: str = "edit a line") -> Task:
    return Task(name, kind, message, {path: text}, {path: (replaced(text, *pairs),)})


def _rename(name: str, path: str, text: str, message: str, *pairs: tuple[str, str]) -> Task:
    return _edit(name, path, text, message, *pairs, kind="rename")


TASKS = (
    _edit("tax-rate", "cart.py", CART, "In cart.py, change TAX_RATE to 0.25.", ("TAX_RATE = 0.20", "TAX_RATE = 0.25")),
    _edit("port", "server.js", SERVER, "Set PORT in server.js to 8080.", ("PORT = 3000", "PORT = 8080")),
    _edit("debug-off", "config.json", CONFIG, "Set debug to false in config.json.", ("true", "false")),
    _edit("keep-days", "README.md", README, "README.md says 90 days. Make it 30 days.", ("90 days", "30 days")),
    _edit("duty-ru", "notes.md", NOTES, "В notes.md замени Тимур на Артём.", ("Тимур", "Артём")),
    Task(
        "create-version",
        "create a file",
        "Create the file VERSION. Its only line is 2.7.1",
        {"cart.py": CART},
        {"VERSION": ("2.7.1",)},
    ),
    Task(
        "create-ignore",
        "create a file",
        "Create .gitignore with exactly two lines: node_modules/ and then dist/",
        {"server.js": SERVER},
        {".gitignore": ("node_modules/\ndist/",)},
    ),
    Task(
        "create-ru",
        "create a file",
        "Создай файл todo.txt с одной строкой: купить молоко",
        {"notes.md": NOTES},
        {"todo.txt": ("купить молоко",)},
    ),
    _rename(
        "rename-ring",
        "geometry.py",
        GEOMETRY,
        "In geometry.py, rename the function area to disc_area everywhere.",
        ("area(", "disc_area("),
    ),
    _rename(
        "rename-greet",
        "server.js",
        SERVER,
        "Rename the function greet to welcome in server.js, also where it is called.",
        ("greet(", "welcome("),
    ),
    _rename(
        "rename-constant",
        "cart.py",
        CART,
        "Rename MAX_ITEMS to ITEM_LIMIT everywhere in cart.py.",
        ("MAX_ITEMS", "ITEM_LIMIT"),
    ),
    Task(
        "find-spread",
        "find a definition",
        "In which file is the function spread defined?",
        {"a/cart.py": CART, "b/numbers.py": STATS, "c/geometry.py": GEOMETRY},
        facts=(named_first(r"\bnumbers\.py", r"cart\.py|geometry\.py"),),
        answer="In b/numbers.py, not in a/cart.py.",
    ),
    Task(
        "find-timeout",
        "find a definition",
        "Which file defines TIMEOUT_MS, and what is its value?",
        {"web/http.js": SERVER, "cart.py": CART},
        facts=(r"http\.js", r"\b5_?,?000\b"),
        answer="web/http.js: 5000.",
    ),
    Task(
        "find-ring",
        "find a definition",
        "Find the file that defines the function ring. Answer with its path.",
        {"src/shapes.py": GEOMETRY, "src/main.py": MAIN, "cart.py": CART},
        facts=(named_first(r"src[/\\]shapes\.py", r"cart\.py|main\.py"),),
        answer="src/shapes.py",
    ),
    Task(
        "run-stats",
        "run and report",
        "Run `python3 stats.py` and tell me the sum it prints.",
        {"stats.py": STATS},
        facts=(r"\b728\b",),
        answer="The sum is 728.",
    ),
    Task(
        "run-primes",
        "run and report",
        "Run `python3 primes.py` and tell me the count and the checksum.",
        {"primes.py": PRIMES},
        facts=(r"\b16\b", r"\b6853\b"),
        answer="count 16, checksum 6853",
    ),
    Task(
        "run-ru",
        "run and report",
        "Запусти `python3 stats.py` и скажи, чему равен spread.",
        {"stats.py": STATS},
        facts=(r"\b39\b",),
        answer="spread равен 39",
    ),
    Task(
        "two-rename",
        "edit two files",
        "Rename the function area to disc in geometry.py and in main.py.",
        {"geometry.py": GEOMETRY, "main.py": MAIN},
        {"geometry.py": (replaced(GEOMETRY, ("area(", "disc(")),), "main.py": (replaced(MAIN, ("area", "disc")),)},
    ),
    Task(
        "two-versions",
        "edit two files",
        "Set the version to 1.5.0 in config.json and in VERSION.",
        {"config.json": CONFIG, "VERSION": "1.4.2\n"},
        {"config.json": (replaced(CONFIG, ("1.4.2", "1.5.0")),), "VERSION": ("1.5.0",)},
    ),
    Task(
        "ask-contact",
        "answer from a file",
        "Who is the contact for questions, according to README.md?",
        {"README.md": README},
        facts=("Marta", "Lindqvist|marta@weather"),
        answer="Marta Lindqvist",
    ),
    Task(
        "ask-port",
        "answer from a file",
        "Which database host and port does config.json name?",
        {"config.json": CONFIG},
        facts=(r"db\.internal", r"\b5432\b"),
        answer="db.internal:5432",
    ),
    Task(
        "ask-ru",
        "answer from a file",
        "Прочитай notes.md: в каком городе резервный сервер?",
        {"notes.md": NOTES},
        facts=("Томск",),
        answer="В Томске.",
    ),
    Task(
        "plain-http",
        "without tools",
        "Without looking at any file: which HTTP status code means Not Found?",
        {"cart.py": CART},
        facts=(r"\b404\b",),
        answer="404",
    ),
    Task(
        "plain-sum",
        "without tools",
        "What is 17 + 25? Just answer.",
        {"README.md": README},
        facts=(r"\b42\b",),
        answer="42",
    ),
)
