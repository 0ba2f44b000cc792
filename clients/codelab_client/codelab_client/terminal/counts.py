"""Numbers of things, as texts."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 line`, `1,200 lines`. plural: of a noun that takes more than an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
