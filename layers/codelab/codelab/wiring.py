"""The composition root: makes the engine and its clients from the environment."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any

from codelab import aws
from codelab.aws.errors import AwsUnreachable
from codelab.config import settings
from codelab.delivery.management_api import Boto3ManagementApi, ManagementApi
from codelab.delivery.payloads import Payloads
from codelab.delivery.post import Poster
from codelab.engine.engine import Engine
from codelab.llm.errors import TransportError
from codelab.llm.failures import FailureKind
from codelab.sessions.dynamodb.store import DynamoDBStore
from codelab.sessions.register import Extent
from codelab.sessions.transition import Step
from codelab.turns.caller import Caller

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from codelab.llm.client.keys import Sign


@cache
def management_api() -> ManagementApi:
    """The client that posts to connections."""
    api_class = Boto3ManagementApi if aws.uses_boto3() else ManagementApi
    return api_class(settings().connections_url)


@cache
def engine() -> Engine:
    """The engine over the AWS clients.

    The clients of S3 and `@connections` are made when needed: most processes see no large payload, and few HTTP
    requests end in posts.
    """
    service_settings = settings()
    payloads = Payloads(_s3, service_settings.payload_bucket)
    poster = Poster(management_api, payloads)
    return Engine(
        DynamoDBStore(aws.dynamodb_client(), service_settings.table_name),
        poster,
        payloads,
        service_settings,
        prepared_step,
    )


def _s3() -> "S3Client":
    from codelab.aws.sdk import s3_client  # the SDK takes longer to import than all else

    return s3_client()


def posting_engine(*, starts_steps: bool = False) -> Engine:
    """The engine for a function that posts, and with `starts_steps` also invokes: makes those clients now."""
    ready_engine = engine()
    management_api()
    if starts_steps:
        aws.lambda_client()
    return ready_engine


def bedrock_signature(url: str) -> "Sign":
    """Signs the requests to Bedrock's runtime at `url`, for its region, with the credentials of the process.

    Raises TransportError if there are none, or new ones cannot be had.
    """
    from codelab.aws.signing import Signer
    from codelab.http.route import Route
    from codelab.llm.client.bedrock import region_in

    signer = Signer("bedrock", url, Route(url).authority, region_in(url))

    def sign(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        try:
            signed = signer.signed(method, path, headers, body).headers
        except AwsUnreachable as error:
            raise TransportError(
                f"no AWS credentials to call Bedrock with: {error}", retryable=True, kind=FailureKind.ACCESS
            ) from error
        return {name: value for name, value in signed.items() if name != "Host"}

    return sign


def invoke_resume(caller: Caller, last_seq: int) -> None:
    """Start a replay in `control`, because nothing can be posted before `$connect` has returned."""
    event = {"kind": "resume", "caller": asdict(caller), "last_seq": last_seq}
    aws.lambda_client().start(settings().control_function, event)


def prepared_step(user: str, session_id: str, step: Step) -> Callable[[], object]:
    """A function that starts the step in `llm_request` asynchronously. Both raise AwsError."""
    extent = asdict(step.extent)
    if not extent["instructions"]:
        del extent["instructions"]  # which an older version, that may still take the event, does not know
    reasoning = extent.pop("reasoning")  # the same
    event = {
        "kind": "compact" if step.compacts else "step",
        "user": user,
        "session_id": session_id,
        "turn_id": step.turn_id,
        "step": step.step,
        "attempt": step.attempt,
        "extent": extent,
        "announced": step.announced_seqs,
        **({"reasoning": reasoning} if reasoning else {}),
    }
    return aws.lambda_client().prepared_start(settings().llm_function, event)


def step_of(event: dict[str, Any]) -> tuple[str, str, Step]:
    """The user, the session id and the step of an event made by `prepared_step`."""
    files, reasoning = tuple(event["extent"]["files"]), tuple(event.get("reasoning", ()))
    extent = Extent(**{**event["extent"], "files": files, "reasoning": reasoning})
    first, last = event.get("announced", (0, -1))  # absent in an event of an earlier version
    step = Step(event["turn_id"], event["step"], event["attempt"], extent, (first, last))
    return event["user"], event["session_id"], step
