"""Answers of the agent, as Markdown."""

from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Markdown, MarkdownElement
from rich.syntax import Syntax

_THEME = "ansi_dark"


class _Code(CodeBlock):
    """Code without the blank lines that Rich puts around it: blocks are apart already."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Syntax(str(self.text).rstrip(), self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 1))


class Answer(Markdown):
    """A text of the agent. The caller has made it safe."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _Code,
        "code_block": _Code,
    }

    def __init__(self, text: str) -> None:
        super().__init__(text, hyperlinks=False, code_theme=_THEME)
