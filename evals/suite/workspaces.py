"""The small files the tasks work on."""

CART = '''"""A shopping cart."""

TAX_RATE = 0.20
MAX_ITEMS = 50


class Cart:
    def __init__(self):
        self.items = []

    def add(self, name, price, count=1):
        if len(self.items) >= MAX_ITEMS:
            raise ValueError("the cart is full")
        self.items.append((name, price, count))

    def total(self):
        net = sum(price * count for _, price, count in self.items)
        return round(net * (1 + TAX_RATE), 2)


def describe(cart):
    return f"{len(cart.items)} items, {cart.total()} EUR"
'''
SERVER = """const http = require("http");

const PORT = 3000;
const TIMEOUT_MS = 5000;

function parseQuery(url) {
  const mark = url.indexOf("?");
  return mark < 0 ? "" : url.slice(mark + 1);
}

function greet(name) {
  return `Hello, ${name}!`;
}

const server = http.createServer((req, res) => {
  res.end(greet(parseQuery(req.url) || "world"));
});

server.setTimeout(TIMEOUT_MS);
server.listen(PORT);
"""
README = """# Weather station

Reads a sensor every 10 seconds and stores the values in SQLite.

## Install

    pip install weather-station

## Settings

The database is `/var/lib/weather/data.db`. Values older than 90 days are
deleted every night at 03:15.

## Contact

Questions go to Marta Lindqvist, marta@weather.example.
"""
CONFIG = """{
  "name": "inventory",
  "version": "1.4.2",
  "debug": true,
  "database": {
    "host": "db.internal",
    "port": 5432
  },
  "retries": 3
}
"""
STATS = """import statistics

VALUES = [3, 8, 15, 4, 23, 42, 9]


def spread(values):
    return max(values) - min(values)


if __name__ == "__main__":
    print("sum", sum(VALUES) * 7)
    print("median", statistics.median(VALUES))
    print("spread", spread(VALUES))
"""
PRIMES = """def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))


primes = [n for n in range(1000, 1100) if is_prime(n)]
print("count:", len(primes))
print("checksum:", sum(primes) % 9973)
"""
GEOMETRY = """import math


def area(radius):
    return math.pi * radius**2


def ring(outer, inner):
    return area(outer) - area(inner)
"""
MAIN = """from geometry import area


def main():
    print(area(2))


main()
"""
NOTES = """# Заметки

Сервер стоит в Казани, резервный в Томске.
Пароль меняют каждые 45 дней.

## Дежурство

Понедельник: Ольга
Вторник: Тимур
"""
