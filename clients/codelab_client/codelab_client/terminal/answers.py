"""Answers of the agent, as Markdown. What is copied from the screen is the text: no line ends in spaces."""

from typing import ClassVar

from pygments.token import Comment, Keyword, Name, Number, Operator, String, Token  # type: ignore[import-untyped]
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.segment import Segment
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.table import Table

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
    """Code in the palette's colours, without the blank lines that Rich puts around it: blocks are apart already.

    A long line goes on where the terminal's next one begins, so it is copied as one. In a list it is broken.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        theme = ANSISyntaxTheme({kind: console.get_style(name, default=Style()) for kind, name in _STYLES.items()})
        code = Syntax(str(self.text).rstrip(), self.lexer_name, theme=theme, word_wrap=True)
        if options.max_width < console.width:
            yield code
            return
        text = code.highlight(code.code)
        text.rstrip()
        text.expand_tabs(4)
        text.no_wrap, text.overflow = True, "ignore"
        yield text


class _Heading(Heading):
    """A heading at the left, whatever its level."""

    LEVEL_ALIGN: ClassVar = {}


class _Table(TableElement):
    """A table without the blank lines that Rich puts around it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                table.show_edge = False
            yield table


class Answer(Markdown):
    """A text of the agent. The caller has made it safe."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _Code,
        "code_block": _Code,
        "heading_open": _Heading,
        "table_open": _Table,
    }

    def __init__(self, text: str) -> None:
        super().__init__(text, hyperlinks=False)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        segments = (part for part in super().__rich_console__(console, options) if isinstance(part, Segment))
        for line in Segment.split_lines(segments):
            while line and not line[-1].text.strip(" "):
                line.pop()
            if line:
                end = line.pop()
                yield from line
                yield Segment(end.text.rstrip(" "), end.style)
            yield Segment.line()
