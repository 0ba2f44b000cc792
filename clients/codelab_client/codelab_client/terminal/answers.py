"""Answers of the agent, as Markdown."""

from typing import ClassVar

from pygments.token import Comment, Keyword, Name, Number, Operator, String, Token  # type: ignore[import-untyped]
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Markdown, MarkdownElement
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax

#: The styles of the terminal's palette that parts of a program have.
_STYLES = {
    Token: "none",
    Comment: "quiet",
    Keyword: "accent",
    Operator.Word: "accent",
    String: "success",
    Number: "warning",
    Name.Function: "bold",
    Name.Class: "bold",
    Name.Decorator: "warning",
}


class _Code(CodeBlock):
    """Code in the palette's colours, without the blank lines that Rich puts around it: blocks are apart already."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        theme = ANSISyntaxTheme({kind: console.get_style(name, default=Style()) for kind, name in _STYLES.items()})
        yield Syntax(str(self.text).rstrip(), self.lexer_name, theme=theme, word_wrap=True, padding=(0, 1))


class Answer(Markdown):
    """A text of the agent. The caller has made it safe."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _Code,
        "code_block": _Code,
    }

    def __init__(self, text: str) -> None:
        super().__init__(text, hyperlinks=False)
