"""Images in frames: base64 of PNG, JPEG, GIF or WebP."""

import base64
import binascii
from typing import Any

from codelab.protocol import limits

#: What the data of each type begins with, as bytes.
_BEGINNINGS = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}
MEDIA_TYPES = tuple(_BEGINNINGS)


def image_problem(image: Any) -> str | None:
    """Why `image` is not {media_type, data}; None if it is one. The data must match the type."""
    if not isinstance(image, dict) or not isinstance(image.get("data"), str):
        return "an image has media_type and data"
    if image.get("media_type") not in MEDIA_TYPES:  # a tuple, because a client may send what is not hashable
        return f"media_type must be one of {', '.join(MEDIA_TYPES)}"
    if len(image["data"]) * 3 // 4 > limits.IMAGE_BYTES:
        return f"an image has at most {limits.IMAGE_BYTES} bytes"
    try:
        data = base64.b64decode(image["data"], validate=True)
    except (binascii.Error, ValueError):
        return "data must be base64"
    if not data.startswith(_BEGINNINGS[image["media_type"]]):
        return f"the data is no {image['media_type']}"
    return None
