"""The only place that makes a logger, and metrics of its lines."""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger

from codelab.config import settings
from codelab.process_start import end_init

_NAMESPACE = "CodeLab"
#: What a line is about; all lines of an invocation have those that are known. See docs/operations.md.
_IDS = ("session", "turn", "connection", "request_id")


@cache
def logger() -> Logger:
    """Structured JSON lines; `LOG_LEVEL` decides how many. `service` in them is the stack's name."""
    return Logger(level=settings().log_level, use_rfc3339=True)


def begin(**ids: str) -> None:
    """At the begin of an event, have every line name its ids: `session`, `turn`, `connection`, `request_id`.

    Those of the last event end.
    """
    end_init()
    logger().remove_keys(_IDS)
    bind(**ids)


def bind(**ids: str) -> None:
    """Have every line name these ids too, from now on. An empty one is left out."""
    logger().append_keys(**{name: value for name, value in ids.items() if value})


@contextmanager
def bound(**ids: str) -> Iterator[None]:
    """Have the lines of this thread name these ids, where an invocation works for several sessions."""
    logger().thread_safe_append_keys(**ids)
    try:
        yield
    finally:
        logger().thread_safe_remove_keys(ids)


def record(message: str, **fields: Any) -> None:
    """Log a line that is there for its metrics: if there are alarms (`METRICS`), and then whatever `LOG_LEVEL` is."""
    if not settings().metrics:
        return
    plain_logger = logging.getLogger(logger().name)
    line = plain_logger.makeRecord(plain_logger.name, logging.INFO, "", 0, message, (), None, "record", fields)
    plain_logger.handle(line)


def metrics(**values: float | Sequence[float]) -> dict[str, Any]:
    """Fields of a line that CloudWatch counts as metrics: a value, or up to 100 of them. `…Ms` are milliseconds.

    This is the embedded metric format, without the 33 ms that the import of Powertools' Metrics takes. Without alarms
    (`METRICS`) they are only fields, because each metric has a price.
    """
    if not settings().metrics:
        return dict(values)
    units = [{"Name": name, "Unit": "Milliseconds" if name.endswith("Ms") else "Count"} for name in values]
    declaration = {"Namespace": _NAMESPACE, "Dimensions": [["service"]], "Metrics": units}
    return {"_aws": {"Timestamp": int(1000 * time.time()), "CloudWatchMetrics": [declaration]}, **values}
