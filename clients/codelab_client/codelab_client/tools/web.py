"""Fetches public web pages. Nothing of the user's own network is reached, whatever a name resolves to.

The address is checked after the name is resolved, and the connection is made to the checked address, so that a second
answer of the name server does not matter. A redirect to another origin is reported and not followed: the user has
allowed one host.
"""

import asyncio
import http.client
import re
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

from codelab_client import __version__
from codelab_client.addresses import ForbiddenAddress, Resolve, is_public, open_socket, resolve
from codelab_client.tools import limits
from codelab_client.tools.failure import ToolFailure

_PORTS = {"http": 80, "https": 443}
_REDIRECTS = 5
_TEXTS = ("text/", "application/json", "application/xml", "application/javascript", "application/xhtml+xml")


@dataclass
class Web:
    """Fetches pages. resolve, may_reach: replaced in tests only, whose servers are on this machine."""

    resolve: Resolve = resolve
    may_reach: Callable[[str], bool] = is_public
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    seconds: float = limits.FETCH_SECONDS

    async def fetch(self, url: str) -> dict[str, Any]:
        """The result of fetch_url. Raises ToolFailure."""
        running = _Running()
        work = asyncio.ensure_future(asyncio.to_thread(self._fetch, url, running))
        try:
            return await asyncio.wait_for(asyncio.shield(work), self.seconds)
        except TimeoutError:
            raise ToolFailure("TIMEOUT", f"The page did not come within {self.seconds:g} seconds") from None
        finally:
            running.stop()
            work.add_done_callback(lambda future: future.cancelled() or future.exception())

    def _fetch(self, url: str, running: "_Running") -> dict[str, Any]:
        target = _checked(url)
        first = target
        for _ in range(_REDIRECTS + 1):
            try:
                answer = self._get(target, running)
            except (OSError, http.client.HTTPException, ValueError) as error:
                reason = getattr(error, "strerror", None) or type(error).__name__
                raise ToolFailure("EXECUTION_FAILED", f"{target.hostname}: {reason}") from None
            if answer.location is None:
                url_field = {"url": target.geturl()} if target != first else {}
                return {**answer.shown(), **url_field}
            elsewhere = urljoin(target.geturl(), answer.location)
            following = urlsplit(elsewhere)
            if not _may_follow(target, following):
                return {**answer.shown(), "content": "", "location": elsewhere[:2_000]}
            target = _checked(elsewhere)
        raise ToolFailure("EXECUTION_FAILED", f"{first.hostname} redirects more than {_REDIRECTS} times")

    def _get(self, target: SplitResult, running: "_Running") -> "_Answer":
        host, port = str(target.hostname), target.port or _PORTS[target.scheme]
        open_connection = self._connect(host, port, running)
        if target.scheme == "https":
            open_connection = self.tls.wrap_socket(open_connection, server_hostname=host)
            running.use(open_connection)
        connection = http.client.HTTPConnection(host, port)
        connection.sock = open_connection
        try:
            path = (target.path or "/") + (f"?{target.query}" if target.query else "")
            connection.putrequest("GET", path, skip_host=True, skip_accept_encoding=True)
            connection.putheader("Host", target.netloc)
            connection.putheader("User-Agent", f"codelab/{__version__}")
            connection.putheader("Accept", "text/html, text/*, application/json;q=0.9, */*;q=0.1")
            connection.putheader("Accept-Encoding", "identity")
            connection.endheaders()
            return _Answer.of(connection.getresponse())
        finally:
            connection.close()

    def _connect(self, host: str, port: int, running: "_Running") -> socket.socket:
        """Connect to a checked address of the host."""
        try:
            connection = open_socket(host, port, self.may_reach, self.seconds / 2, self.resolve)
        except ForbiddenAddress:
            raise ToolFailure(
                "PERMISSION_DENIED", f"{host} is not on the public internet, and only that is fetched"
            ) from None
        running.use(connection)
        return connection


class _Running:
    """The socket that a thread uses, so that it can be stopped from outside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._stopped = False

    def use(self, connection: socket.socket) -> None:
        """The thread uses this one from now on. Raises OSError if it has been stopped."""
        with self._lock:
            self._socket = connection
            if self._stopped:
                connection.close()
                raise OSError("stopped")

    def stop(self) -> None:
        """Break the connection: what waits for it fails."""
        with self._lock:
            self._stopped = True
            if self._socket is not None:
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True)
class _Answer:
    status: int
    media_type: str
    text: str
    truncated: bool
    location: str | None = None

    @classmethod
    def of(cls, response: http.client.HTTPResponse) -> "_Answer":
        media_type = response.headers.get_content_type()
        location = response.headers.get("Location")
        if response.status in (301, 302, 303, 307, 308) and location:
            return cls(response.status, media_type, "", truncated=False, location=location)
        if not media_type.startswith(_TEXTS) and not media_type.endswith(("+json", "+xml")):
            raise ToolFailure("EXECUTION_FAILED", f"It is {media_type[:100]}, not text")
        data = response.read(limits.FETCHED_BYTES + 1)
        cut = data[: limits.FETCHED_BYTES]
        try:
            text = cut.decode(response.headers.get_content_charset() or "utf-8", "replace")
        except LookupError:
            text = cut.decode("utf-8", "replace")
        if media_type in ("text/html", "application/xhtml+xml"):
            text = plain(text)
        return cls(response.status, media_type, text, len(data) > len(cut))

    def shown(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "content_type": self.media_type,
            "content": self.text,
            "truncated": self.truncated,
        }


def _checked(url: str) -> SplitResult:
    """The parts of an address. Raises ToolFailure INVALID_ARGUMENTS for one that programs read differently."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    is_plain = bool(parts.hostname) and url.isascii() and url.isprintable() and not set(url) & set(' \\"<>^`{|}')
    if parts.scheme not in _PORTS or not is_plain or set(parts.netloc) & set("@%") or port == 0:
        raise ToolFailure("INVALID_ARGUMENTS", "url must be a plain http or https address without a user name")
    return parts._replace(fragment="")


def _may_follow(old: SplitResult, new: SplitResult) -> bool:
    """Whether a redirect stays with the host that the user has allowed; it may change from http to https."""
    try:
        ports = (old.port, new.port)
    except ValueError:
        return False
    if new.hostname != old.hostname or new.scheme not in _PORTS:
        return False
    if (old.scheme, new.scheme) == ("http", "https"):
        return ports == (None, None)
    return old.scheme == new.scheme and (ports[0] or _PORTS[old.scheme]) == (ports[1] or _PORTS[new.scheme])


#: Elements whose text no reader sees; the content of the first two is not markup.
_RAW = frozenset({"script", "style"})
_HIDDEN = _RAW | {"noscript", "template", "svg", "head"}
_BLOCKS = frozenset(
    {
        *("address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "fieldset", "figure"),
        *("footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p"),
        *("pre", "section", "table", "tr", "ul"),
    }
)
#: A tag. An attribute's value in quotes may have a `>`.
_TAG = re.compile(r"""<(/?)([A-Za-z][^\s/>]*+)(?:=\s*+"[^"]*+"|=\s*+'[^']*+'|[^>])*+>""")
#: What begins like markup and is not a tag.
_OTHER = re.compile(r"<(?:!--|[!?]|/?[A-Za-z]|/)")


class _Plain:
    """Collects the text of a page, with a line for each block.

    Its time grows with the page's length only, whatever the page holds, which that of `html.parser` does not.
    """

    def __init__(self) -> None:
        #: The outermost hidden element, and how many of its name are open.
        self._hidden_tag, self._open_tags = "", 0
        self._pre = 0
        self.parts: list[str] = []

    def feed(self, html: str) -> None:
        """Take a whole page. Text after an unclosed tag or comment is ignored."""
        at = 0
        while (match := _OTHER.search(html, at)) is not None:
            self._data(html[at : match.start()])
            tag = _TAG.match(html, match.start())
            if tag is not None:
                at = tag.end()
                self._take(tag[2].lower(), is_end=bool(tag[1]))
                if not tag[1] and tag[2].lower() in _RAW:
                    end = re.compile(rf"</{tag[2]}(?=[\s/>])", re.IGNORECASE).search(html, at)
                    at = len(html) if end is None else end.start()
            else:
                mark = "-->" if match[0] == "<!--" else ">"
                end_at = -1 if match[0][-1:].isalpha() else html.find(mark, match.start() + 2)
                at = len(html) if end_at < 0 else end_at + len(mark)
        self._data(html[at:])

    def _take(self, name: str, *, is_end: bool) -> None:
        if name == "body" and not is_end:
            self._hidden_tag, self._open_tags = "", 0
        if name == (self._hidden_tag or name) and name in _HIDDEN:
            self._open_tags = max(0, self._open_tags + (-1 if is_end else 1))
            self._hidden_tag = name if self._open_tags else ""
        if name == "pre":
            self._pre = max(0, self._pre + (-1 if is_end else 1))
        if name in _BLOCKS:
            self.parts.append("\n")
        if name in ("td", "th") and not is_end:
            self.parts.append(" ")

    def _data(self, data: str) -> None:
        if data and not self._hidden_tag:
            with suppress(ValueError):  # of a character's number with thousands of digits
                data = unescape(data)
            self.parts.append(data if self._pre else " ".join(f"|{data}|".split())[1:-1])


def plain(html: str) -> str:
    """The text of a page without its markup."""
    parser = _Plain()
    parser.feed(html)
    lines = [line.rstrip() for line in "".join(parser.parts).split("\n")]
    text_lines = [line for line, before in zip(lines, ["", *lines], strict=False) if line or before]
    return "\n".join(text_lines).strip()
