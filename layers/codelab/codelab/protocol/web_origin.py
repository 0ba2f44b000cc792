"""The origin of a URL: scheme, host and port."""

import re

#: Programs disagree about user names, backslashes and escapes in a URL's host, so such a URL has no origin.
_URL = re.compile(r"(https?)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?(?:[/?#].*)?", re.IGNORECASE | re.ASCII)
_PORTS = {"http": 80, "https": 443}


def web_origin(url: str) -> str:
    """The origin in one spelling, as in `https://example.com:8443`; empty if the URL is not clearly one."""
    match = _URL.fullmatch(url)
    if match is None or not match[2].strip("."):
        return ""
    scheme, host = match[1].lower(), match[2].lower().removesuffix(".")
    is_usual = match[3] is None or int(match[3]) == _PORTS[scheme]
    return f"{scheme}://{host}" + ("" if is_usual else f":{int(match[3])}")
