"""`/health`: whether the dependencies answer, and which features are refused. Public, so it says no more."""

import time
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from codelab import aws
from codelab.aws.errors import AwsError
from codelab.config import Settings, settings
from codelab.observability import logger
from codelab.rest.bodies import with_example
from codelab.rest.routes import DirectRoute
from codelab.sessions.dynamodb.unsupported import read_unsupported

VERSION = "1.0.0"

#: Seconds for which an answer is cached, so that frequent checks cost little; and the model's part of it, which costs
#: an invocation, while the model is available and while it is not.
_KEPT_S, _AVAILABLE_S, _UNAVAILABLE_S = 3.0, 60.0, 10.0
#: Seconds that `llm_request` may take; it may need a cold start.
_MODEL_PATIENCE_S = 15.0

router = APIRouter(tags=["health"], route_class=DirectRoute)


class Dependencies(BaseModel):
    """The states of the dependencies."""

    dynamodb: Literal["connected", "disconnected"]
    llm: Literal["available", "unavailable"]


class Health(BaseModel):
    """`degraded`: a dependency does not answer.

    `refused` is present if the model's provider refused a feature within the last hour; Requests then do without it.
    """

    model_config = with_example(
        status="healthy",
        service="agent-runtime",
        version=VERSION,
        dependencies={"dynamodb": "connected", "llm": "available"},
    )

    status: Literal["healthy", "degraded"]
    service: Literal["agent-runtime"]
    version: str
    dependencies: Dependencies
    refused: dict[str, list[str]] | None = Field(
        default=None,
        description="By model, the features that at least one process no longer uses (see The Request)",
    )


_cached_health: tuple[float, Health] | None = None
_cached_model: tuple[float, bool] | None = None


@router.get("/health", response_model_exclude_none=True)
def get_health() -> Health:
    """Whether the service and its dependencies are available."""
    global _cached_health
    if _cached_health is None or time.monotonic() - _cached_health[0] > _KEPT_S:
        _cached_health = time.monotonic(), _check(settings())
    return _cached_health[1]


def _check(config: Settings) -> Health:
    global _cached_model
    if _cached_model is None or time.monotonic() - _cached_model[0] > (
        _AVAILABLE_S if _cached_model[1] else _UNAVAILABLE_S
    ):
        _cached_model = time.monotonic(), _model_answers(config.llm_function)
    refused_features, llm = _refused_features(config.table_name), _cached_model[1]
    return Health(
        status="healthy" if refused_features is not None and llm else "degraded",
        service="agent-runtime",
        version=VERSION,
        dependencies=Dependencies(
            dynamodb="disconnected" if refused_features is None else "connected",
            llm="available" if llm else "unavailable",
        ),
        refused=refused_features or None,
    )


def _refused_features(table: str) -> dict[str, list[str]] | None:
    """The refused features, by model; None if the table does not answer."""
    try:
        return read_unsupported(aws.dynamodb_client(), table, time.time())
    except AwsError as error:
        logger().warning("the table does not answer", extra={"error": str(error)})
        return None


def _model_answers(function: str) -> bool:
    """Whether the model's endpoint answers and accepts the key. Only `llm_request` has the key."""
    try:
        answer = aws.waiting_lambda_client(_MODEL_PATIENCE_S).ask(function, {"kind": "health"})
    except AwsError as error:
        logger().warning("the model cannot be asked", extra={"error": str(error)})
        return False
    if answer.failed or not answer.value["available"]:
        logger().warning("the model's endpoint does not answer, or refuses the key", extra={"answer": answer.value})
        return False
    return True
