"""Serves a project's web page at `/`; until it is built, a page that says so.

The page has the API's origin, so its policy lets it run and load nothing but its own files.
"""

import base64
import hashlib
import html
import mimetypes
from pathlib import Path

from codelab_local.http.protocol import Request, Response
from codelab_local.page.build import PageBuild, State

_HASHED = "/assets/"  # The bundler puts a digest of the content into these files' names.
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
# Trusted Types: a string becomes HTML only through the sanitizer, and names a script only where the service worker is.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self' {addresses}; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify push"
)

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:12vh auto;padding:0 1rem;color-scheme:light dark}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;opacity:.75;font-size:.85em}"
)
_STYLE_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_WAITING_POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_DIGEST}'; base-uri 'none'; frame-ancestors 'none'"
_WAITING = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">{refresh}'
    '<meta name="viewport" content="width=device-width"><title>{title}</title><style>'
    + _STYLE.replace("{", "{{").replace("}", "}}")
    + '</style></head><body><h1>{title}</h1><p role="status">{text}</p><pre>{output}</pre>'
    "<p>The system itself runs: the API is described at /docs.</p></body></html>"
)


class Page:
    """The files below `folder`, for requests to them and to `/`.

    addresses: where the page may connect to as well, separated by spaces.
    """

    def __init__(self, folder: Path, build: PageBuild, addresses: str) -> None:
        self._folder = folder
        self._build = build
        self._headers = {**_HEADERS, "Content-Security-Policy": _POLICY.format(addresses=addresses)}

    def handle(self, request: Request) -> Response | None:
        """The answer; None if the page has no such file."""
        if request.method not in ("GET", "HEAD"):
            return None
        file = self._file(request.path)
        if file is None:
            return self._waiting() if request.path == "/" else None
        return self._answer(request, *file)

    def _file(self, path: str) -> tuple[Path, bytes] | None:
        name = "index.html" if path == "/" else path[1:]
        # Names of files that the bundler made: no escapes, nothing hidden, no folder outside.
        if "%" in name or "\\" in name or any(part[:1] in ("", ".") for part in name.split("/")):
            return None
        file = self._folder / name
        try:
            return (file, file.read_bytes()) if not file.is_symlink() else None
        except OSError:
            return None

    def _answer(self, request: Request, file: Path, body: bytes) -> Response:
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        is_hashed = request.path.startswith(_HASHED)
        caching = "public, max-age=31536000, immutable" if is_hashed else "no-cache"
        headers = {**self._headers, "ETag": tag, "Cache-Control": caching}
        if request.headers.get("if-none-match") == tag:
            return Response(304, headers=headers)
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        if kind in ("text/html", "text/css", "text/javascript", "application/javascript", "image/svg+xml"):
            kind = f"{kind.replace('application/j', 'text/j')}; charset=utf-8"
        if request.method == "HEAD":
            return Response(200, headers={**headers, "Content-Length": str(len(body)), "Content-Type": kind})
        return Response(200, body, kind, headers)

    def _waiting(self) -> Response:
        """Why there is no page yet. It asks again every second while the page is being built."""
        build = self._build
        running = build.state in (State.RUNNING, State.DONE)
        title, text = {
            State.RUNNING: ("The page is being built", "This takes less than a minute, once. It appears by itself."),
            State.DONE: ("The page is being built", "It is ready in a moment."),
            State.FAILED: (
                "The page could not be built",
                "It needs Node.js 20.19 or later and the npm registry. Then start the system again with: make run",
            ),
            State.OFF: ("The page is not built", "Build it with: make page"),
        }[build.state]
        page = _WAITING.format(
            title=title,
            text=text,
            refresh='<meta http-equiv="refresh" content="1">' if running else "",
            output=html.escape("\n".join(build.output[-1:] if running else build.output)),
        )
        headers = {**_HEADERS, "Content-Security-Policy": _WAITING_POLICY, "Cache-Control": "no-store"}
        return Response(503 if running else 404, page.encode(), "text/html; charset=utf-8", headers)
