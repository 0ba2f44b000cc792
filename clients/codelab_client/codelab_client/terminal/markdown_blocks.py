"""Splits growing Markdown where a block has certainly ended, so that each block is rendered once."""


def complete_length(text: str) -> int:
    """How many characters at the beginning of `text` are whole blocks: paragraphs, lists, fenced code."""
    length = position = 0
    fence, blank = "", -1
    for line in text.splitlines(keepends=True):
        words = line.strip()
        if fence:
            if words.startswith(fence) and not words.strip(fence[0]):
                fence = ""
                blank = position + len(line) if line.endswith("\n") else -1
        else:
            if blank >= 0 and words and not line[0].isspace():
                length = blank  # what follows does not belong to the block before
            if words:
                blank = -1
            if words.startswith(("```", "~~~")):
                fence = words[: len(words) - len(words.lstrip(words[0]))]
            elif not words and line.endswith("\n"):
                blank = position + len(line)
        position += len(line)
    return max(length, blank if blank >= 0 and not fence and text.endswith("\n\n") else 0)
