"""Health: whether what this service depends on answers. Open to everyone, so it tells no more than that."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Literal
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from codelab import aws
from codelab.config import Settings, settings
from codelab.observability import logger
from codelab.rest.routes import DirectRoute

VERSION = "1.0.0"

#: How long an answer is kept, so that who asks often does not cost often; how long a dependency may take. Seconds.
_KEPT_S = 3.0
_PATIENCE_S = 2.0

router = APIRouter(tags=["health"], route_class=DirectRoute)


class Dependencies(BaseModel):
    dynamodb: Literal["connected", "disconnected"]
    llm: Literal["available", "unavailable"]


class Health(BaseModel):
    """`degraded`: a dependency does not answer."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "status": "healthy",
                    "service": "agent-runtime",
                    "version": VERSION,
                    "dependencies": {"dynamodb": "connected", "llm": "available"},
                }
            ]
        }
    )

    status: Literal["healthy", "degraded"]
    service: Literal["agent-runtime"]
    version: str
    dependencies: Dependencies


_last: tuple[float, Health] | None = None


@router.get("/health", response_model=Health)
def get_health() -> Health:
    """Whether the service and what it depends on are there."""
    global _last
    if _last is None or time.monotonic() - _last[0] > _KEPT_S:
        _last = time.monotonic(), _check(settings())
    return _last[1]


def _check(configured: Settings) -> Health:
    with ThreadPoolExecutor(max_workers=2) as pool:
        model = pool.submit(_listens, _model_url(configured))
        dynamodb, llm = _table_answers(configured.table_name), model.result()
    return Health(
        status="healthy" if dynamodb and llm else "degraded",
        service="agent-runtime",
        version=VERSION,
        dependencies=Dependencies(
            dynamodb="connected" if dynamodb else "disconnected", llm="available" if llm else "unavailable"
        ),
    )


def _table_answers(table: str) -> bool:
    try:
        aws.client("dynamodb").get_item(TableName=table, Key={"pk": {"S": "health"}, "sk": {"S": "health"}})
    except (ClientError, BotoCoreError) as error:
        logger().warning("the table does not answer", extra={"error": str(error)})
        return False
    return True


def _model_url(configured: Settings) -> str:
    """Where `llm_request` asks."""
    if configured.llm_base_url:
        return configured.llm_base_url
    if configured.llm_provider != "bedrock":
        return "https://api.openai.com/v1"
    from codelab.requests.bedrock import bedrock_base_url  # here alone

    return bedrock_base_url()


def _listens(url: str) -> bool:
    """Whether something listens there: a request would need a key, and could cost money."""
    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with socket.create_connection((parts.hostname or "", port), timeout=_PATIENCE_S):
            return True
    except (OSError, ValueError) as error:
        logger().warning("the model's endpoint does not answer", extra={"url": url, "error": str(error)})
        return False
