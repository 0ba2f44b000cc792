"""The origin of a URL: scheme, host and port."""

import re

#: Programs disagree about user names, backslashes and escapes in a URL's host, so such a URL has no origin.
_URL = re.compile(r"(https?)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?(?:[/?#].*)?", re.IGNORECASE | re.ASCII)
_PORTS = {"http": 80, "https": 443}


def web_origin(url: str) -> str:
    """The origin in one spelling, as in `https://example.com:8443`; empty if the URL is not clearly one."""
    found = _URL.fullmatch(url)
    if found is None or not found[2].strip("."):
        return ""
    scheme, host = found[1].lower(), found[2].lower().removesuffix(".")
    is_usual = found[3] is None or int(found[3]) == _PORTS[scheme]
    return f"{scheme}://{host}" + ("" if is_usual else f":{int(found[3])}")
