"""Code fences around texts that anybody may have written."""


def fenced(text: str, language: str = "") -> str:
    """`text` in a code fence longer than any in it, so that nothing in it can end the fence."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
