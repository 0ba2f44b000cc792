"""A second set of held-out tasks, written by someone who did not know how the agent is prompted."""

from evals.suite.task import Task, named_first, replaced

UNITS = '''"""Distances and temperatures."""

KM_PER_MILE = 1.609
FREEZING_F = 32


def to_miles(km):
    return km / KM_PER_MILE


def to_celsius(fahrenheit):
    return (fahrenheit - FREEZING_F) * 5 / 9


def marathon():
    return round(to_miles(42.195), 1)
'''
TRIP = """from units import to_miles

LEGS = [120, 85, 310]


def total():
    return sum(to_miles(leg) for leg in LEGS)


if __name__ == "__main__":
    print(round(total(), 1))
"""
TEXT = '''"""Small helpers for text."""

import re


def slugify(title):
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def shorten(text, limit=40):
    return text if len(text) <= limit else text[: limit - 3] + "..."
'''
PAGES = """from text import shorten, slugify

TITLES = ["About us", "Opening hours", "How to find us"]


def links():
    return [(slugify(title), shorten(title)) for title in TITLES]


for slug, title in links():
    print(f"/{slug}: {title}")
"""
STOCK = """export interface Product {
  code: string;
  amount: number;
}

const LOW_LIMIT = 10;
const CURRENCY = "SEK";

export function restock(product: Product, amount: number): Product {
  return { ...product, amount: product.amount + amount };
}

export function fillUp(product: Product): Product {
  return product.amount < LOW_LIMIT ? restock(product, LOW_LIMIT) : product;
}

export function price(value: number): string {
  return `${value.toFixed(2)} ${CURRENCY}`;
}
"""
ROUTES = """const RETRY_DELAY = 750;

const routes = {
  "/": "home.html",
  "/about": "about.html",
};

function lookup(path) {
  return routes[path] || "missing.html";
}

function retry(action) {
  setTimeout(action, RETRY_DELAY);
}

module.exports = { lookup, retry };
"""
THEME = """:root {
  --accent: #3366cc;
  --gap: 12px;
}

body {
  margin: 0;
  font-family: Georgia, serif;
}

.badge {
  padding: var(--gap);
  color: var(--accent);
}

.badge:hover {
  text-decoration: underline;
}
"""
PRINT = """body {
  margin: 2cm;
  font-size: 11pt;
}

nav,
footer {
  display: none;
}

.watermark {
  opacity: 0.15;
}
"""
DEPLOY = """#!/bin/sh
set -e

BRANCH="main"
TARGET_DIR="/srv/harbor"

fetch() {
  git fetch origin "$BRANCH"
  git checkout "$BRANCH"
}

fetch
mkdir -p "$TARGET_DIR"
cp -r build/. "$TARGET_DIR"
echo "copied to $TARGET_DIR"
"""
APP = """title = "Harbor"

[server]
bind = "0.0.0.0"
port = 8000
workers = 4

[log]
level = "warning"
file = "/var/log/harbor.log"

[cache]
minutes = 15
"""
COMPOSE = """services:
  web:
    build: .
    ports:
      - "8000:8000"
    depends_on:
      - store
  store:
    image: postgres:15
    environment:
      POSTGRES_DB: harbor
"""
MANIFEST = """{
  "name": "tide-table",
  "author": "Femke Aldous",
  "license": "MIT",
  "engines": {
    "node": ">=18"
  },
  "scripts": {
    "start": "node index.js",
    "check": "node check.js"
  }
}
"""
LIBRARY = """# Town library

Anyone who lives in the town can borrow books.

## Hours

The library is open from 10:00 to 18:30. It is closed on Wednesday.

## Rules

- A book may be kept for 21 days.
- A late book costs 20 cents a day.

## Building

The reading room is on the second floor.
"""
RECIPE = """# Пирог с яблоками

## Продукты

- мука: 250 г
- сахар: 120 г
- яблоки: 4 штуки

## Как готовить

Разогреть духовку до 180 градусов.
Нарезать яблоки и смешать с тестом.
Печь 35 минут.
"""
TEAM = """# Команда

Список тех, кто отвечает за проект.

- Руководитель: Павел
- Дизайнер: Ирина
- Тестировщик: Глеб

## Встречи

Каждый четверг в 11:30.
"""
DUTY = """# Дежурства на неделю
monday:
  name: Глеб
  phone: 204
tuesday:
  name: Ирина
  phone: 317
friday:
  name: Павел
  phone: 158
"""
STATS_ORDERS = """ORDERS = [("tea", 17, 23), ("jam", 46, 9), ("oats", 31, 28), ("salt", 58, 13)]


def value(order):
    _, price, count = order
    return price * count


total = sum(value(order) for order in ORDERS)
best = max(ORDERS, key=value)

print("orders:", len(ORDERS))
print("total:", total)
print("best:", best[0])
print("rest:", total % 389)
"""
STATS_WALK = """def walk(start, steps):
    place = start
    highest = start
    for _ in range(steps):
        place = (place * 37 + 11) % 613
        highest = max(highest, place)
    return place, highest


last, highest = walk(5, 40)
print("last", last)
print("highest", highest)
print("steps", 40)
"""
STATS_RAIN = """RAIN = {"may": [4, 19, 7, 33], "june": [28, 2, 41, 16], "july": [11, 9, 5, 38]}


def weighted(days):
    return sum(day * (number + 3) for number, day in enumerate(days))


for month, days in RAIN.items():
    print(month, weighted(days))

print("all", sum(weighted(days) for days in RAIN.values()))
"""
PRIMES_TWINS = """def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))


def is_twin(n):
    return is_prime(n) and is_prime(n + 2)


twins = [n for n in range(2000, 3000) if is_twin(n)]
print("pairs:", len(twins))
print("remainder:", sum(twins) % 977)
"""
PRIMES_GAPS = """def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))


primes = [n for n in range(5000, 6000) if is_prime(n)]
gaps = [after - before for before, after in zip(primes, primes[1:])]

print("primes:", len(primes))
print("widest gap:", max(gaps))
print("ending in 7:", sum(n % 10 == 7 for n in primes))
"""


def _edit(name: str, path: str, text: str, message: str, *pairs: tuple[str, str], kind: str = "edit a line") -> Task:
    return Task(name, kind, message, {path: text}, {path: (replaced(text, *pairs),)})


def _rename(name: str, path: str, text: str, message: str, *pairs: tuple[str, str]) -> Task:
    return _edit(name, path, text, message, *pairs, kind="rename")


TASKS = (
    _edit("s-workers", "app.toml", APP, "In app.toml, change workers to 6.", ("workers = 4", "workers = 6")),
    _edit("s-accent", "theme.css", THEME, "Set --accent in theme.css to #aa2255.", ("#3366cc", "#aa2255")),
    _edit("s-branch", "deploy.sh", DEPLOY, 'In deploy.sh, set BRANCH to "release".', ('="main"', '="release"')),
    _edit(
        "s-image",
        "compose.yaml",
        COMPOSE,
        "compose.yaml uses the image postgres:15. Change it to postgres:16.",
        ("postgres:15", "postgres:16"),
    ),
    _edit("s-limit", "stock.ts", STOCK, "Change LOW_LIMIT in stock.ts to 25.", ("LIMIT = 10;", "LIMIT = 25;")),
    _edit(
        "s-fine",
        "library.md",
        LIBRARY,
        "In library.md a late book costs 20 cents a day. Make it 35 cents.",
        ("20 cents", "35 cents"),
    ),
    _edit("s-license", "package.json", MANIFEST, "Set license to ISC in package.json.", ('"MIT"', '"ISC"')),
    _edit(
        "s-oven-ru",
        "recipe.md",
        RECIPE,
        "В recipe.md замени 180 градусов на 200 градусов.",
        ("180 градусов", "200 градусов"),
    ),
    Task(
        "s-create-runtime",
        "create a file",
        "Create the file runtime.txt. Its only line is python-3.12.4",
        {"units.py": UNITS},
        {"runtime.txt": ("python-3.12.4",)},
    ),
    Task(
        "s-create-robots",
        "create a file",
        "Create robots.txt with exactly these two lines:\nUser-agent: *\nDisallow: /drafts/",
        {"theme.css": THEME},
        {"robots.txt": ("User-agent: *\nDisallow: /drafts/",)},
    ),
    Task(
        "s-create-script",
        "create a file",
        'Create the file hello.py with exactly one line: print("Good morning")',
        {"app.toml": APP},
        {"hello.py": ('print("Good morning")', "print('Good morning')")},
    ),
    Task(
        "s-create-ru",
        "create a file",
        "Создай файл plan.txt с одной строкой: позвонить бабушке",
        {"recipe.md": RECIPE},
        {"plan.txt": ("позвонить бабушке",)},
    ),
    _rename(
        "s-rename-miles",
        "units.py",
        UNITS,
        "In units.py, rename the function to_miles to in_miles everywhere.",
        ("to_miles", "in_miles"),
    ),
    _rename(
        "s-rename-restock",
        "stock.ts",
        STOCK,
        "Rename the function restock to addStock in stock.ts, also where it is called.",
        ("restock(", "addStock("),
    ),
    _rename(
        "s-rename-variable",
        "deploy.sh",
        DEPLOY,
        "Rename the variable TARGET_DIR to DEST_DIR everywhere in deploy.sh.",
        ("TARGET_DIR", "DEST_DIR"),
    ),
    _rename(
        "s-rename-class",
        "theme.css",
        THEME,
        "Rename the class badge to pill everywhere in theme.css.",
        (".badge", ".pill"),
    ),
    Task(
        "s-find-slugify",
        "find a definition",
        "In which file is the function slugify defined?",
        {"site/text.py": TEXT, "site/pages.py": PAGES, "tools/units.py": UNITS},
        facts=(named_first(r"\btext\.py", r"pages\.py|units\.py"),),
        answer="In site/text.py; site/pages.py only imports it.",
    ),
    Task(
        "s-find-delay",
        "find a definition",
        "Which file defines RETRY_DELAY, and what is its value?",
        {"web/routes.js": ROUTES, "web/stock.ts": STOCK},
        facts=(r"routes\.js", r"\b750\b"),
        answer="web/routes.js: 750.",
    ),
    Task(
        "s-find-product",
        "find a definition",
        "Find the file that defines the interface Product. Answer with its path.",
        {"src/stock.ts": STOCK, "src/routes.js": ROUTES, "deploy.sh": DEPLOY},
        facts=(named_first(r"src[/\\]stock\.ts", r"routes\.js|deploy\.sh"),),
        answer="src/stock.ts",
    ),
    Task(
        "s-find-watermark",
        "find a definition",
        "Which CSS file has the rule for the class watermark?",
        {"css/theme.css": THEME, "css/print.css": PRINT},
        facts=(named_first(r"\bprint\.css", r"theme\.css"),),
        answer="css/print.css",
    ),
    Task(
        "s-find-ru",
        "find a definition",
        "В каком файле определена функция to_miles?",
        {"lib/units.py": UNITS, "lib/trip.py": TRIP, "lib/text.py": TEXT},
        facts=(named_first(r"\bunits\.py", r"trip\.py|text\.py"),),
        answer="В файле lib/units.py.",
    ),
    Task(
        "s-run-orders",
        "run and report",
        "Run `python3 stats.py` and tell me the total it prints.",
        {"stats.py": STATS_ORDERS},
        facts=(r"\b2[,_. ]?427\b",),
        answer="The total is 2427.",
    ),
    Task(
        "s-run-walk",
        "run and report",
        "Run `python3 stats.py` and tell me the values of last and highest.",
        {"stats.py": STATS_WALK},
        facts=(r"\b500\b", r"\b605\b"),
        answer="last 500, highest 605",
    ),
    Task(
        "s-run-twins",
        "run and report",
        "Run `python3 primes.py` and tell me the number of pairs and the remainder.",
        {"primes.py": PRIMES_TWINS},
        facts=(r"\b21\b", r"\b787\b"),
        answer="21 pairs, the remainder is 787",
    ),
    Task(
        "s-run-gaps",
        "run and report",
        "Run `python3 primes.py`. How many primes does it print, and what is the widest gap?",
        {"primes.py": PRIMES_GAPS},
        facts=(r"\b114\b", r"\b32\b"),
        answer="primes: 114, widest gap: 32",
    ),
    Task(
        "s-run-ru",
        "run and report",
        "Запусти `python3 stats.py` и скажи, какое число напечатано после june.",
        {"stats.py": STATS_RAIN},
        facts=(r"\b393\b",),
        answer="После june напечатано 393.",
    ),
    Task(
        "s-two-rename",
        "edit two files",
        "Rename the function shorten to clip in text.py and in pages.py.",
        {"text.py": TEXT, "pages.py": PAGES},
        {
            "text.py": (replaced(TEXT, ("shorten", "clip")),),
            "pages.py": (
                replaced(PAGES, ("shorten", "clip")),
                replaced(PAGES, ("shorten, slugify", "slugify, clip"), ("shorten", "clip")),
            ),
        },
    ),
    Task(
        "s-two-ports",
        "edit two files",
        "Replace 8000 with 9100 everywhere in app.toml and in compose.yaml.",
        {"app.toml": APP, "compose.yaml": COMPOSE},
        {"app.toml": (replaced(APP, ("8000", "9100")),), "compose.yaml": (replaced(COMPOSE, ("8000", "9100")),)},
    ),
    Task(
        "s-two-ru",
        "edit two files",
        "В файлах team.md и duty.yaml замени имя Ирина на Оксана.",
        {"team.md": TEAM, "duty.yaml": DUTY},
        {"team.md": (replaced(TEAM, ("Ирина", "Оксана")),), "duty.yaml": (replaced(DUTY, ("Ирина", "Оксана")),)},
    ),
    Task(
        "s-ask-closed",
        "answer from a file",
        "On which day is the library closed, according to library.md?",
        {"library.md": LIBRARY},
        facts=(r"Wednesday",),
        answer="On Wednesday.",
    ),
    Task(
        "s-ask-log",
        "answer from a file",
        "Which log level and which log file does app.toml name?",
        {"app.toml": APP},
        facts=(r"\bwarning\b", r"harbor\.log"),
        answer="warning, /var/log/harbor.log",
    ),
    Task(
        "s-ask-author",
        "answer from a file",
        "Who is the author named in package.json?",
        {"package.json": MANIFEST},
        facts=(r"Femke\s+Aldous",),
        answer="Femke Aldous",
    ),
    Task(
        "s-ask-ru",
        "answer from a file",
        "Прочитай recipe.md: сколько минут нужно печь пирог?",
        {"recipe.md": RECIPE},
        facts=(r"\b35\b|тридцать пять",),
        answer="35 минут.",
    ),
    Task(
        "s-plain-https",
        "without tools",
        "Without looking at any file: which port does HTTPS use by default?",
        {"compose.yaml": COMPOSE},
        facts=(r"\b443\b",),
        answer="443",
    ),
    Task(
        "s-plain-product",
        "without tools",
        "What is 9 * 8? Just answer.",
        {"units.py": UNITS},
        facts=(r"\b72\b|seventy[- ]two",),
        answer="72",
    ),
    Task(
        "s-plain-ru",
        "without tools",
        "Не открывая файлов, ответь: сколько минут в трёх часах?",
        {"team.md": TEAM},
        facts=(r"\b180\b|сто восемьдесят",),
        answer="180 минут.",
    ),
)
