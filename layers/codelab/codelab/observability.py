"""The only place that makes a logger, and metrics of its lines."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger

from codelab.config import settings
from codelab.process_start import end_init

_NAMESPACE = "CodeLab"
#: The metrics that are counted for each model, too.
MODEL_METRICS = ("Tokens", "CostUsd")
#: What a line is about; all lines of an invocation have those that are known. See docs/operations.md.
_IDS = ("session", "turn", "connection", "request_id")


@cache
def logger() -> Logger:
    """Structured JSON lines; `LOG_LEVEL` decides how many. `service` in them is the stack's name."""
    return Logger(level=settings().log_level, use_rfc3339=True)


_began_at = 0


def began_at() -> int:
    """When the event began that this process handles, in nanoseconds since the epoch."""
    return _began_at


def begin(**ids: str) -> None:
    """At the begin of an event, have every line name its ids: `session`, `turn`, `connection`, `request_id`.

    Those of the last event end.
    """
    global _began_at
    end_init()
    _began_at = time.time_ns()
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
    if settings().metrics:
        write_line(message, **fields)


def write_line(message: str, **fields: Any) -> None:
    """Log a line that something reads, whatever `LOG_LEVEL` is."""
    plain_logger = logging.getLogger(logger().name)
    line = plain_logger.makeRecord(plain_logger.name, logging.INFO, "", 0, message, (), None, "record", fields)
    plain_logger.handle(line)


def metrics(**values: float | Sequence[float]) -> dict[str, Any]:
    """Fields of a line that CloudWatch counts as metrics: a value, or up to 100 of them. An empty list is left out.

    `…Ms` are milliseconds, `…Usd` dollars. This is the embedded metric format, without the 33 ms that the import of
    Powertools' Metrics takes. Without alarms (`METRICS`) they are only fields, because each metric has a price.
    """
    fields: dict[str, Any] = {name: value for name, value in values.items() if value != []}
    return _declared(fields) if fields and settings().metrics else fields


def model_metrics(model: str, **values: float | Sequence[float]) -> dict[str, Any]:
    """`metrics`, of which those in `MODEL_METRICS` are also counted for the model.

    Each model is a metric more, which has a price; so there is no dimension that has as many values as users.
    """
    fields = {name: value for name, value in values.items() if value != []}
    return {"model": model, **(_declared(fields, by_model=True) if settings().metrics else fields)}


def _declared(fields: Mapping[str, Any], *, by_model: bool = False) -> dict[str, Any]:
    """The fields, and that they are metrics."""
    groups: list[tuple[list[str], Iterable[str]]] = [(["service"], fields)]
    if by_model:
        groups.append((["service", "model"], [name for name in fields if name in MODEL_METRICS]))
    declarations = [
        {
            "Namespace": _NAMESPACE,
            "Dimensions": [dimensions],
            "Metrics": [{"Name": name, "Unit": _unit(name)} for name in names],
        }
        for dimensions, names in groups
    ]
    return {"_aws": {"Timestamp": int(1000 * time.time()), "CloudWatchMetrics": declarations}, **fields}


def _unit(name: str) -> str:
    return "Milliseconds" if name.endswith("Ms") else "None" if name.endswith("Usd") else "Count"
