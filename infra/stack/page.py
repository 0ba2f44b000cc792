"""The web page of a stack: whether it can sign users in, and its files in the package of its function."""

import gzip
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from infra import page
from infra.stack.stack import Refused, Stack, parameters

#: What `sam build` has made of functions/page, and `sam deploy` uploads.
BUILT = page.ROOT / ".aws-sam" / "build" / "PageFunction"
_TIMEOUT_S = 10


def is_served(stack: Stack, given: Mapping[str, str]) -> bool:
    """Whether the stack will serve the page, with the parameters `given` or those that it keeps."""
    before = parameters(stack.describe() or {})
    return {**before, **given}.get("WebPage") == "true"


def put_into_package(built: Path = BUILT) -> None:
    """Build the page, and put its files into the built function, compressed. Raises Refused."""
    try:
        page.build()
    except SystemExit as error:
        raise Refused(
            f"the page cannot be built ({error}): it needs Node.js 20.19 or later, or PyPI, and the npm registry. "
            "To deploy without it, give WebPage=false"
        ) from None
    files = built / "files"
    shutil.rmtree(files, ignore_errors=True)
    for source in sorted(page.DIST.rglob("*")):
        name = source.relative_to(page.DIST)
        # What begins with a dot is about the build.
        if source.is_file() and not any(part.startswith(".") for part in name.parts):
            packed = files / f"{name}.gz"
            packed.parent.mkdir(parents=True, exist_ok=True)
            # Without a time, so that the same page is the same package, which is not uploaded again.
            packed.write_bytes(gzip.compress(source.read_bytes(), 9, mtime=0))


def sign_in_problems(values: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    """Why users of the page could not sign in, and whether that stops the deployment. `values`: all parameters."""
    issuer = values["JwtIssuer"]
    if values["WebPage"] != "true" or not values["JwksUrl"] or not issuer:
        return
    if not values["JwtClientId"]:
        yield "users of the page must paste a token: set JwtClientId, so that they can sign in at the JwtIssuer", False
        return
    if _origin(issuer) == "":
        yield f"users cannot sign in at JwtIssuer={issuer} with the page, because that is not an https address", False
        return
    try:
        found = _discover(issuer)
    except (URLError, OSError, ValueError) as error:
        yield f"cannot ask {issuer} how users of the page sign in ({error}): the page asks it as well", False
        return
    if found.get("issuer") != issuer:
        yield f"JwtIssuer={issuer} says that it is {found.get('issuer')}: give it exactly as it says", True
        return
    allowed = {_origin(issuer), *values["SignInOrigins"].split(",")}
    needed = {_origin(str(found.get("token_endpoint", "")))} - allowed - {""}
    if needed:
        more = ",".join(sorted(needed | allowed - {_origin(issuer), ""}))
        yield f"the page asks {', '.join(needed)} for tokens, not the JwtIssuer: add SignInOrigins={more}", True


def _discover(issuer: str) -> dict[str, Any]:
    asked = Request(f"{issuer.rstrip('/')}/.well-known/openid-configuration", headers={"Accept": "application/json"})
    with urlopen(asked, timeout=_TIMEOUT_S) as answer:
        found = json.loads(answer.read(1_000_000))
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    return found


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"https://{parts.netloc}" if parts.scheme == "https" and parts.netloc else ""
