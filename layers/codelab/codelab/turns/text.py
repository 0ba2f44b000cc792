"""Cutting what is too long."""


def head_and_tail(text: str, most: int) -> str:
    """`text`, or about `most` characters: its beginning and end with a note of what was cut out."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters cut out …]\n{text[-half:]}"


def within_bytes(text: str, most: int) -> str:
    """The same for about `most` bytes of UTF-8."""
    size = len(text.encode())
    return text if size <= most else head_and_tail(text, len(text) * most // size)
