"""From a context of rich messages to the messages of a model."""

from __future__ import annotations

from typing import Any

from .config import RequestConfig
from .errors import InvalidRequest


class Registry:
    """Content types and their handlers."""


DEFAULT_REGISTRY = Registry()


def prepare(
    config: RequestConfig, schema: Any, context: Any, registry: Registry
) -> tuple[RequestConfig, Any, list[dict[str, Any]]]:
    if not isinstance(context, list) or not context:
        raise InvalidRequest("the context is empty", "/context")
    return config, schema, list(context)
