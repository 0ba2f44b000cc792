"""Secrets Manager's GetSecretValue ("Secrets Manager API Reference")."""

import json

from codelab.aws.calls import Service
from codelab.aws.connections import Answer


class Secrets:
    """Raises AwsError: AwsRefused with the service's code, AwsUnreachable."""

    def __init__(self) -> None:
        self._service = Service("secretsmanager")

    def get(self, arn: str) -> str:
        """The text of a secret."""
        headers = {"X-Amz-Target": "secretsmanager.GetSecretValue", "Content-Type": "application/x-amz-json-1.1"}
        body = json.dumps({"SecretId": arn}).encode()
        return self._service.call("GetSecretValue", "/", headers, body, _text)


def _text(answer: Answer) -> str:
    return str(json.loads(answer.body)["SecretString"])
