"""`/docs`: the documentation of the API, where it can be tried out. Swagger UI comes with the function, not from a CDN.

The page runs beside the API, so its scripts could do there what its reader may. Therefore it has none but those that
are served here, and the browser is told to take no others.
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

#: Addresses are relative, so that a stage or a path before them does no harm.
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
#: Without `validatorUrl` the document's address would be told to a service elsewhere.
_BEGIN = """SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#swagger-ui',
  deepLinking: true,
  validatorUrl: null,
  queryConfigEnabled: false,
});
"""

#: What of the package `fastapi-swagger` is served, and as what. The package itself is never imported.
_PACKAGE = "fastapi_swagger"
_ASSETS = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}


@router.get("")
def page() -> Response:
    """The page, without a line of script in itself."""
    return Response(_PAGE, media_type="text/html", headers=_HEADERS)


@router.get("/{name}")
def asset(name: str) -> Response:
    """What the page consists of."""
    if name == "begin.js":
        return Response(_BEGIN, media_type="text/javascript", headers=_HEADERS)
    if name not in _ASSETS:
        raise HTTPException(404)
    headers = {**_HEADERS, "Cache-Control": "public, max-age=86400"}
    return Response((_folder() / name).read_bytes(), media_type=_ASSETS[name], headers=headers)


def _folder() -> Path:
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise HTTPException(404, "The documentation page is not installed")
    return Path(found.origin).parent / "resources"
