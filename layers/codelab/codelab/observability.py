"""The only place that makes a logger."""

from functools import cache

from aws_lambda_powertools import Logger

from codelab.config import settings


@cache
def logger() -> Logger:
    """Structured JSON lines; `LOG_LEVEL` decides how many."""
    return Logger(service="codelab", level=settings().log_level, use_rfc3339=True)
