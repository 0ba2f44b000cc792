"""Secrets Manager's GetSecretValue ("Secrets Manager API Reference")."""

from codelab.aws.calls import JsonService


class Secrets:
    """Raises AwsError: AwsRefused with the service's code, AwsUnreachable."""

    def __init__(self) -> None:
        self._service = JsonService("secretsmanager", "secretsmanager", "application/x-amz-json-1.1")

    def get(self, arn: str, stage: str = "AWSCURRENT") -> str:
        """The text of a secret's version. stage: AWSCURRENT, or AWSPREVIOUS."""
        return str(self._service.call("GetSecretValue", {"SecretId": arn, "VersionStage": stage})["SecretString"])
