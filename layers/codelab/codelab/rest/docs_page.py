"""`/docs`: the API's documentation, with forms to try it. Swagger UI is a part of the function, not loaded from a CDN.

The page shares the API's origin, so its scripts could do whatever its reader may. It only uses scripts that this
function serves, and tells the browser to accept no others.
"""

import importlib.util
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import Response
from starlette.exceptions import HTTPException

router = APIRouter(prefix="/docs", include_in_schema=False)

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}

#: Addresses are relative, so that the page also works below a stage or a path.
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>CodeLab Agent Runtime API</title>
<link rel="icon" href="docs/favicon-32x32.png">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/begin.js"></script>
</body>
</html>
"""
#: Without `validatorUrl: null`, Swagger UI would send the document's address to a service on the internet.
_SCRIPT = """SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#swagger-ui',
  deepLinking: true,
  validatorUrl: null,
  queryConfigEnabled: false,
});
"""

#: The served files of the package `fastapi-swagger`, with their types. The package itself is never imported.
_PACKAGE = "fastapi_swagger"
_ASSETS = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}


@router.get("")
def page() -> Response:
    """The page, without inline scripts."""
    return Response(_PAGE, media_type="text/html", headers=_HEADERS)


@router.get("/{name}")
def asset(name: str) -> Response:
    """A script, a style or an icon of the page."""
    if name == "begin.js":
        return Response(_SCRIPT, media_type="text/javascript", headers=_HEADERS)
    if name not in _ASSETS:
        raise HTTPException(404)
    headers = {**_HEADERS, "Cache-Control": "public, max-age=86400"}
    return Response((_folder() / name).read_bytes(), media_type=_ASSETS[name], headers=headers)


def _folder() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise HTTPException(404, "The documentation page is not installed")
    return Path(spec.origin).parent / "resources"
