"""The demonstration model: an OpenAI-compatible server that plays a coding assistant offline.

It needs no network, no key and no weights: it recognises a handful of requests in Russian and English, calls the tools
it is given and answers from their results. Any other JSON Schema it answers with a valid instance.
`DEMO_TOKEN_DELAY_MS` (10) and `DEMO_FIRST_TOKEN_DELAY_MS` (0) set its pace.
"""

from codelab_local.demo_model.completions import MODEL
from codelab_local.demo_model.server import serve

__all__ = ["MODEL", "serve"]
