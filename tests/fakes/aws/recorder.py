"""Every call that a function makes of AWS, in order: seen, counted, and where a test says so, answered here.

They are made by our clients, or with `AWS_CLIENT=boto3` by the SDK's, which call S3 in any case. DynamoDB, KMS and
Secrets Manager are moto's. Invokes and posts to connections are answered here, for nobody is there.
"""

import contextlib
import io
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from codelab.aws.connections import Answer
from codelab.aws.signing import Request
from moto.core.models import botocore_stubber

from tests.fakes.aws.calls import answer, call_of, operation_of, refusal
from tests.frames import check_received
from tests.waiting import PATIENCE

READ, READ_MANY, TRANSACTION = "GetItem", "BatchGetItem", "TransactWriteItems"
APPEND, UPDATE, QUERY = "PutItem", "UpdateItem", "Query"
INVOKE, POST, READ_SECRET = "Invoke", "PostToConnection", "GetSecretValue"

#: In DynamoDB a call is one moment. In moto it is not: a transaction that is undone takes another thread's update with
#: it.
_one_at_a_time = threading.Lock()

#: The HTTP status and the code of an error.
Refusal = tuple[int, str]


class Recorder:
    """`calls` are the operations since the last `reset`, `gone` the connections whose posts are answered by 410.

    It stands in for the `ManagementApi` itself: `post` and `delete` are that one's.
    """

    def __init__(self) -> None:
        self.gone: set[str] = set()
        #: The folder of the function that runs, and what each has done that needs a permission: action and resource.
        self.folder = ""
        self.used: set[tuple[str, str, str]] = set()
        self._changed = threading.Condition()
        #: The answers of this test to calls, by their ids; None: moto's.
        self._answered: dict[str, Answer | None] = {}
        self._rules: list[tuple[str, Callable[[], Refusal | None]]] = []
        self._paused = False
        self._under_way = 0
        self._posted: list[dict[str, Any]] = []
        #: Of all invokes, the last; `reset` keeps it.
        self.last_invoke: tuple[str, dict[str, Any]] = ("", {})
        self.reset()

    def reset(self) -> None:
        self.calls: list[str] = []
        self.posts: list[tuple[str, dict[str, Any]]] = []
        self.invokes: list[tuple[str, dict[str, Any]]] = []

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """For calls that never leave the process."""
        self._paused = True
        yield
        self._paused = False

    @contextlib.contextmanager
    def run_by(self, folder: str) -> Iterator[None]:
        """Whose calls these are, and those that it leaves under way."""
        before, self.folder = self.folder, folder
        try:
            yield
        finally:
            self.folder = before or folder

    def note(self, what: str) -> None:
        """Put something that is no call of AWS into the order."""
        with self._changed:
            self.calls.append(what)
            self._changed.notify_all()

    def wait_for(self, what: str, count: int) -> None:
        """Wait until `what` was called `count` times."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.calls.count(what) >= count, PATIENCE)

    def settle(self) -> None:
        """Wait for calls that a function has left under way."""
        with self._changed:
            assert self._changed.wait_for(lambda: not self._under_way, PATIENCE)

    def check_frames(self) -> None:
        """Raise AssertionError if a frame was posted that the documents do not know. Not where it is posted: a function
        takes any exception for a reason to refuse its event."""
        for frame in self._posted:
            check_received(frame)

    def frames(self, connection: str) -> list[dict[str, Any]]:
        return [frame for target, frame in self.posts if target == connection]

    # -- faults --------------------------------------------------------------------------------------------------

    def once(self, operation: str, rule: Callable[[], Refusal | None], *, nth: int = 1) -> None:
        """Run `rule` at the nth next call of `operation`: it may answer it, raise, or let it go on (None)."""
        self._rules += [(operation, lambda: None)] * (nth - 1) + [(operation, rule)]

    def refuse(self, operation: str, status: int, code: str) -> None:
        """The next call of `operation` fails with this error and has no effect."""
        self.once(operation, lambda: (status, code))

    # -- the connections -----------------------------------------------------------------------------------------

    def post(self, connection_id: str, data: bytes) -> int:
        self.note(POST)
        self.used.add((self.folder, *MAY_POST))
        if (refused := self._ruled(POST)) is not None:
            return refused[0]
        if connection_id in self.gone:
            return 410
        frame = json.loads(data)
        self.posts.append((connection_id, frame))
        self._posted.append(json.loads(data))
        return 200

    def delete(self, connection_id: str) -> int:
        self.note("DeleteConnection")
        self.used.add((self.folder, *MAY_CLOSE))
        return 204

    # -- DynamoDB and Lambda -------------------------------------------------------------------------------------

    def send(self, request: Request) -> Answer:
        """In place of `Connections.send`. A call that is refused is refused at every attempt."""
        if self._paused:
            return moto(request)
        operation, call = operation_of(request), call_of(request)
        with self._changed:
            known = call in self._answered
        if not known:
            self.note(operation)
            function = _invoked(request) if operation == INVOKE else ""
            body = {} if function else json.loads(request.body)
            self.used.update((self.folder, *it) for it in _permissions(operation, body, function))
            self._answered[call] = self._answer(operation, request)
        with self._changed:
            self._under_way += 1
        try:
            return self._answered[call] or moto(request)
        finally:
            self._end()

    def _answer(self, operation: str, request: Request) -> Answer | None:
        if (refused := self._ruled(operation)) is not None:
            return refusal(*refused)
        if operation == INVOKE:
            assert request.headers["X-Amz-Invocation-Type"] == "Event"
            self.last_invoke = _invoked(request), json.loads(request.body)
            self.invokes.append(self.last_invoke)
            return answer(202)
        return None

    # -- the SDK's hooks -----------------------------------------------------------------------------------------

    def ask_for(self, params: Mapping[str, Any], model: Any, **_: Any) -> None:
        """Of the event `provide-client-params`, which the signature of a URL also causes: whoever uses the URL needs
        what its signer may do."""
        if self._paused:
            return
        service = model.service_model.service_name
        if service == "s3":
            action = f"{service}:{_ACTIONS.get(model.name, model.name)}"
            self.used.update((self.folder, action, resource) for resource in _resources_of(action, params))
            return
        if model.name == INVOKE:
            function, event = params["FunctionName"], params["Payload"]
            self.last_invoke = function, json.loads(event)
            self.used.update((self.folder, *it) for it in _permissions(INVOKE, {}, function))
        else:
            self.used.update((self.folder, *it) for it in _permissions(model.name, params))

    def before_call(self, model: Any, **_: Any) -> tuple[AWSResponse, dict[str, Any]] | None:
        """Of the event `before-call`, which is the last that can keep a call from being made."""
        if self._paused:
            return None
        self.note(model.name)
        refused = self._ruled(model.name)
        with self._changed:
            self._under_way += 1
        if refused is None and model.name == INVOKE:
            self.invokes.append(self.last_invoke)
            accepted = AWSResponse("https://stub.invalid", 202, HTTPHeaders(), None)
            return accepted, {"ResponseMetadata": {"HTTPStatusCode": 202}, "StatusCode": 202, "Payload": io.BytesIO()}
        if refused is None:
            return None
        status, code = refused
        error = {"Error": {"Code": code, "Message": "refused by the test"}}
        answered = AWSResponse("https://stub.invalid", status, HTTPHeaders(), None)
        return answered, {"ResponseMetadata": {"HTTPStatusCode": status}, **error}

    def after_call(self, **_: Any) -> None:
        """Of `after-call` and `after-call-error`."""
        if not self._paused:
            self._end()

    def _end(self) -> None:
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()

    def _ruled(self, operation: str) -> Refusal | None:
        """What the next rule for the operation says to it."""
        for rule in self._rules:
            if rule[0] == operation:
                self._rules.remove(rule)
                return rule[1]()
        return None


def moto(request: Request) -> Answer:
    """moto's answer to the request; within `mock_aws`."""
    with _one_at_a_time:
        return _moto(request)


def _moto(request: Request) -> Answer:
    headers = HTTPHeaders()
    for name, value in request.headers.items():
        headers[name] = value
    prepared = AWSPreparedRequest(request.method, request.url, headers, request.body, False)
    found = botocore_stubber("before-send", prepared)
    assert found is not None, f"moto knows no {request.url}"
    told = {name.lower(): str(value) for name, value in found.headers.items()}
    return Answer(found.status_code, told, found.content)


#: IAM's names where they are not the operation's.
_ACTIONS = {"ListObjectsV2": "ListBucket", "DeleteObjects": "DeleteObject"}
_WRITES = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}

#: What a call needs: the action, and the resource as a policy of the template names it.
Permission = tuple[str, str]

#: What KMS does with the only key that there is.
_OF_KEYS = frozenset({"GetPublicKey", "Sign"})
_TABLE, _BUCKET = "${Table.Arn}", "${PayloadBucket.Arn}"
_FUNCTION = "arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:${AWS::StackName}-"
_API = "arn:${AWS::Partition}:execute-api:${AWS::Region}:${AWS::AccountId}:${WebSocketApi}/${StageName}"
MAY_POST = "execute-api:ManageConnections", f"{_API}/POST/@connections/*"
MAY_CLOSE = "execute-api:ManageConnections", f"{_API}/DELETE/@connections/*"


def _permissions(operation: str, body: Mapping[str, Any], function: str = "") -> list[Permission]:
    """What a call of DynamoDB, Secrets Manager, KMS or Lambda needs: of a transaction what each part of it does."""
    if operation == INVOKE:
        return [("lambda:InvokeFunction", _FUNCTION + function.removeprefix("codelab-"))]
    if operation == READ_SECRET:
        return [(f"secretsmanager:{READ_SECRET}", f"${{{body['SecretId']}}}")]
    if operation in _OF_KEYS:
        return [(f"kms:{operation}", "${WebPushKey.Arn}")]
    if operation == TRANSACTION:
        return [(f"dynamodb:{_WRITES[kind]}", _TABLE) for part in body["TransactItems"] for kind in part]
    return [(f"dynamodb:{operation}", f"{_TABLE}/index/{body['IndexName']}" if "IndexName" in body else _TABLE)]


def _invoked(request: Request) -> str:
    return unquote(request.url).split("/")[-2]


def _resources_of(action: str, params: Mapping[str, Any]) -> set[str]:
    """The resources of a call of S3, by its parameters."""
    if action == "s3:ListBucket":
        return {_BUCKET}
    keys = [it["Key"] for it in params["Delete"]["Objects"]] if "Delete" in params else [params["Key"]]
    return {f"{_BUCKET}/{key.split('/')[0]}/*" for key in keys}
