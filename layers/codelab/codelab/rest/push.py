"""The browsers that are pushed to when an agent waits for their user."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from codelab.config import settings
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.rest.bodies import Body, JsonRoute, timestamp, with_example
from codelab.rest.error_responses import refusals
from codelab.rest.identity import User
from codelab.sessions.push_subscription import LIFE_S, PushSubscription
from codelab.wiring import engine

router = APIRouter(prefix="/push", tags=["push"], route_class=JsonRoute)

SubscriptionId = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$", description="The id that adding it has given")]


class PushSupport(BaseModel):
    """Whether this server pushes, and as whom."""

    model_config = with_example(application_server_key="BOrlJoLTbuX8QLpmMlYZmZyfbvoi4_lIWcP5F3ZgY2Ke")

    application_server_key: str | None = Field(
        description="The key for `PushManager.subscribe`, in base64url; null if this server does not push"
    )


class NewSubscription(Body):
    """A browser's subscription. A push has no content, so its keys are not needed."""

    model_config = with_example(endpoint="https://updates.push.services.mozilla.com/wpush/v2/gAAAAABl")

    endpoint: str = Field(
        description="The `endpoint` of the browser's `PushSubscription`, at a push service that is known"
    )


class Subscription(BaseModel):
    """A subscription as it is stored. It ends by itself if it is not added again before `expires_at`."""

    model_config = with_example(id="0a1b2c3d4e5f60718293a4b5c6d7e8f9", expires_at="2024-03-09T10:00:00.000Z")

    id: str
    expires_at: str


class DeletedSubscription(BaseModel):
    """There is no such subscription any more."""

    model_config = with_example(status="deleted")

    status: Literal["deleted"] = "deleted"


@router.get("", responses=refusals())
def get_push_support(user: User) -> PushSupport:
    """Whether this server pushes to browsers when an agent waits for their user, and the key for it."""
    from codelab import push  # few requests need it

    return PushSupport(application_server_key=push.public_key() or None)


@router.put("/subscriptions", responses=refusals(ErrorCode.PERMISSION_DENIED))
def put_push_subscription(body: NewSubscription, user: User) -> Subscription:
    """Push to this browser when an agent waits for the caller. A user has at most 10; the oldest one makes room."""
    from codelab import push  # few requests need it

    if not settings().web_push_key:
        raise ProtocolError(ErrorCode.PERMISSION_DENIED, "This server does not push: its operator has not set WebPush")
    if not push.is_known(body.endpoint, settings().web_push_hosts):
        raise ProtocolError(
            ErrorCode.INVALID_ARGUMENTS,
            "endpoint must be an https address of a push service that this server's operator allows",
            details={"field": "endpoint"},
        )
    subscription = PushSubscription(body.endpoint, engine().clock())
    push.subscriptions().put(user, subscription)
    return Subscription(id=subscription.id, expires_at=timestamp(subscription.at + 1000 * LIFE_S))


@router.delete("/subscriptions/{subscription_id}", responses=refusals())
def delete_push_subscription(subscription_id: SubscriptionId, user: User) -> DeletedSubscription:
    """Push to this browser no more. It need not have been pushed to."""
    from codelab import push  # few requests need it

    if settings().web_push_key:
        push.subscriptions().remove(user, subscription_id)
    return DeletedSubscription()
