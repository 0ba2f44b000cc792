"""The same clients over boto3's (`AWS_CLIENT=boto3`): for what only the SDK knows, and as the measure of ours.

They cost what ours were made to save: a third of a cold start, and most of the CPU of a call. Work that is done while a
call of ours is under way is done after it here.
"""

import json
from collections.abc import Callable
from typing import Any

from botocore import xform_name
from botocore.config import Config

from codelab.aws.connections import READ_S, Answer
from codelab.aws.dynamodb import DynamoDB
from codelab.aws.errors import sdk_errors
from codelab.aws.functions import Functions
from codelab.aws.sdk import client_of
from codelab.aws.secrets import Secrets
from codelab.aws.signing_keys import SigningKeys


class Boto3DynamoDB(DynamoDB):
    """DynamoDB with boto3's client."""

    def __init__(self) -> None:
        self._client = client_of("dynamodb", Config(read_timeout=READ_S))

    @sdk_errors()
    def _call(
        self, operation: str, request: dict[str, Any], on_wait: Callable[[], object] | None = None
    ) -> dict[str, Any]:
        response: dict[str, Any] = getattr(self._client, xform_name(operation))(**request)
        return response


class Boto3Functions(Functions):
    """Lambda's Invoke with boto3's client."""

    def __init__(self, *, attempts: int | None = None, read_s: float = READ_S) -> None:
        self._client = client_of("lambda", Config(read_timeout=read_s), attempts)

    def _invoke(self, function: str, kind: str, event: dict[str, Any]) -> Callable[[], Answer]:
        payload = json.dumps(event).encode()

        @sdk_errors()
        def invoke() -> Answer:
            response = self._client.invoke(FunctionName=function, InvocationType=kind, Payload=payload)
            headers = {"x-amz-function-error": response["FunctionError"]} if "FunctionError" in response else {}
            return Answer(response["StatusCode"], headers, response["Payload"].read())

        return invoke


class Boto3Secrets(Secrets):
    """Secrets Manager with boto3's client."""

    def __init__(self) -> None:
        self._client = client_of("secretsmanager", Config(read_timeout=READ_S))

    @sdk_errors()
    def get(self, arn: str, stage: str = "AWSCURRENT") -> str:
        """The text of a secret's version. stage: AWSCURRENT, or AWSPREVIOUS."""
        return str(self._client.get_secret_value(SecretId=arn, VersionStage=stage)["SecretString"])


class Boto3SigningKeys(SigningKeys):
    """KMS with boto3's client."""

    def __init__(self) -> None:
        self._client = client_of("kms", Config(read_timeout=READ_S))

    @sdk_errors()
    def public_key(self, arn: str) -> bytes:
        """The public key, as DER (SubjectPublicKeyInfo, RFC 5280)."""
        return bytes(self._client.get_public_key(KeyId=arn)["PublicKey"])

    @sdk_errors()
    def sign(self, arn: str, message: bytes) -> bytes:
        """The ECDSA signature of a message's SHA-256, as DER (RFC 3279, section 2.2.3). At most 4096 bytes."""
        answer = self._client.sign(KeyId=arn, Message=message, MessageType="RAW", SigningAlgorithm="ECDSA_SHA_256")
        return bytes(answer["Signature"])
