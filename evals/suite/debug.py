"""Programs with a mistake: what is wrong is told, or a failing test tells it. Any right correction is one.

The values of the corrected code are compared; its tests must stay as they are.
"""

from typing import Any

from evals.suite.task import Files, Task, replaced

_AVERAGE = """def average(numbers):
    total = 0
    for number in numbers:
        total += number
    return total // len(numbers)
"""
_PAGES = '''def page_count(items, per_page):
    """How many pages are needed for so many items."""
    return items // per_page


def page(items, number, per_page):
    """The items of a page; the first page has number 1."""
    start = number * per_page
    return items[start : start + per_page]
'''
_PAGES_TEST = """from pages import page, page_count


def test_page_count():
    assert page_count(10, 5) == 2
    assert page_count(11, 5) == 3
    assert page_count(0, 5) == 0


def test_page():
    items = list("abcdefg")
    assert page(items, 1, 3) == ["a", "b", "c"]
    assert page(items, 3, 3) == ["g"]


if __name__ == "__main__":
    test_page_count()
    test_page()
    print("ok")
"""
_SLUG = '''import re


def slug(title):
    """A title as a part of an address: lower case, words joined by one hyphen."""
    words = re.split(r"[^a-z0-9]", title)
    return "-".join(words).lower()
'''
_SLUG_TEST = """from slug import slug

assert slug("Hello World") == "hello-world", slug("Hello World")
assert slug("  A -- B!  ") == "a-b", slug("  A -- B!  ")
assert slug("2nd Edition") == "2nd-edition", slug("2nd Edition")
print("ok")
"""
_QUEUE = '''class Queue:
    """First in, first out, at most `size` items; the oldest is dropped when a new one does not fit."""

    def __init__(self, size, items=[]):
        self.size = size
        self.items = items

    def put(self, item):
        self.items.append(item)
        if len(self.items) > self.size:
            self.items.pop()

    def get(self):
        return self.items.pop(0) if self.items else None
'''
_LEAP = """def is_leap(year):
    return year % 4 == 0


def days_in(year):
    return 366 if is_leap(year) else 365
"""
_TOTALS = '''import shop.prices


def total(basket):
    """The price of a basket, {name: count}, with 10 % off from 5 pieces of one article."""
    amount = 0
    for name, count in basket.items():
        price = shop.prices.PRICES[name] * count
        if count > 5:
            price = price * 0.9
    amount += price
    return round(amount, 2)
'''
_PRICES = 'PRICES = {"apple": 0.5, "pear": 0.8, "melon": 3.0}\n'
_WORDS = '''def longest(text):
    """The longest word; of equally long ones the first."""
    best = ""
    for word in text.split(" "):
        if len(word) >= len(best):
            best = word
    return best
'''
_CLOCK = '''def minutes(clock):
    """Minutes since midnight of a clock such as "07:30"."""
    hours, rest = clock.split(":")
    return int(hours) * 60 + int(rest)


def between(start, end):
    """Minutes from one clock to another, which may be on the next day."""
    return minutes(end) - minutes(start)
'''


def _debug(name: str, message: str, files: Files, path: str, fixed: str, values: dict[str, Any]) -> Task:
    return Task(name, "debug", message, files, free=(path,), solution={path: fixed}, values=values)


TASKS = (
    _debug(
        "debug-average",
        "average([1, 2]) in average.py gives 1 but should give 1.5. Fix it.",
        {"average.py": _AVERAGE},
        "average.py",
        replaced(_AVERAGE, ("//", "/")),
        {"average.average([1, 2])": 1.5, "average.average([4, 4])": 4.0},
    ),
    _debug(
        "debug-pages",
        "The tests in test_pages.py fail. Run them with `python3 test_pages.py` and correct pages.py so that they "
        "pass. Do not change the tests.",
        {"pages.py": _PAGES, "test_pages.py": _PAGES_TEST},
        "pages.py",
        replaced(
            _PAGES, ("items // per_page", "-(-items // per_page)"), ("number * per_page", "(number - 1) * per_page")
        ),
        {
            "pages.page_count(11, 5)": 3,
            "pages.page_count(10, 5)": 2,
            "pages.page_count(1, 5)": 1,
            "pages.page(list('abcdefg'), 3, 3)": ["g"],
            "pages.page([1, 2], 1, 5)": [1, 2],
        },
    ),
    _debug(
        "debug-slug",
        "`python3 check_slug.py` fails. Correct slug.py; check_slug.py must stay as it is.",
        {"slug.py": _SLUG, "check_slug.py": _SLUG_TEST},
        "slug.py",
        replaced(
            _SLUG,
            ('re.split(r"[^a-z0-9]", title)', 're.split(r"[^a-z0-9]+", title.lower())'),
            ('"-".join(words).lower()', '"-".join(word for word in words if word)'),
        ),
        {"slug.slug('  A -- B!  ')": "a-b", "slug.slug('Über 9 Things')": "ber-9-things", "slug.slug('X')": "x"},
    ),
    _debug(
        "debug-queue",
        "Queue in queues.py has two mistakes: all queues share their items, and when it is full it drops the newest "
        "item in place of the oldest. Fix both.",
        {"queues.py": _QUEUE},
        "queues.py",
        replaced(
            _QUEUE,
            ("items=[]):", "items=None):"),
            ("self.items = items", "self.items = [] if items is None else items"),
            ("self.items.pop()\n", "self.items.pop(0)\n"),
        ),
        {
            "[(q := queues.Queue(2)), [q.put(n) for n in (1, 2, 3)], q.get(), q.get(), q.get()][2:]": [2, 3, None],
            "[queues.Queue(3).put(1), queues.Queue(3).get()]": [None, None],
        },
    ),
    _debug(
        "debug-leap",
        "days_in(1900) in leap.py gives 366, but 1900 was no leap year (and 2000 was one). Fix it.",
        {"leap.py": _LEAP},
        "leap.py",
        replaced(_LEAP, ("year % 4 == 0", "year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)")),
        {"leap.days_in(1900)": 365, "leap.days_in(2000)": 366, "leap.days_in(2024)": 366, "leap.days_in(2023)": 365},
    ),
    _debug(
        "debug-totals",
        "total() in shop/totals.py is wrong: it counts only the last article, and 5 pieces get no discount, though the "
        "description promises it. Fix it.",
        {"shop/__init__.py": "", "shop/totals.py": _TOTALS, "shop/prices.py": _PRICES},
        "shop/totals.py",
        replaced(
            _TOTALS,
            ("count > 5", "count >= 5"),
            ("    amount += price\n    return", "        amount += price\n    return"),
        ),
        {
            "[__import__('shop.totals'), shop.totals.total({'apple': 5, 'melon': 1})][1]": 5.25,
            "[__import__('shop.totals'), shop.totals.total({'pear': 1, 'apple': 2})][1]": 1.8,
        },
    ),
    _debug(
        "debug-longest-ru",
        "longest() в words.py должна возвращать первое из самых длинных слов, а возвращает последнее. Исправь.",
        {"words.py": _WORDS},
        "words.py",
        replaced(_WORDS, (">=", ">")),
        {"words.longest('ab cd e')": "ab", "words.longest('a bcd ef')": "bcd", "words.longest('')": ""},
    ),
    _debug(
        "debug-clock",
        "between('23:30', '00:15') in clock.py gives a negative number. It should give 45. Fix between().",
        {"clock.py": _CLOCK},
        "clock.py",
        replaced(_CLOCK, ("minutes(end) - minutes(start)", "(minutes(end) - minutes(start)) % (24 * 60)")),
        {"clock.between('23:30', '00:15')": 45, "clock.between('07:30', '09:00')": 90, "clock.minutes('07:30')": 450},
    ),
)
