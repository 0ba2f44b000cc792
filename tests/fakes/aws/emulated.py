"""The AWS services of a deployment: the local cloud's emulator, and Bedrock's answers about its models.

The emulator's Bedrock has other models than the real one, so this module answers the preflight.
"""

import io
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

import boto3
import pytest
from codelab_local.emulator.server import Emulator
from codelab_local.template.sam_template import CODE_BUCKET, CODE_KEY, TEMPLATE_KEY, read_template

from tests.fakes.http import Exchange, HttpServer

TEMPLATE = Path(__file__).parents[3] / "template.yaml"
REGION = "us-east-1"

AVAILABLE = {
    "agreementAvailability": {"status": "AVAILABLE"},
    "authorizationStatus": "AUTHORIZED",
    "entitlementAvailability": "AVAILABLE",
    "regionAvailability": "AVAILABLE",
}


class EmulatedAws:
    """`environment` makes boto3 and the SAM CLI use it. `models` are Bedrock's answers by model id."""

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="codelab-deploy-test-")
        self.models: dict[str, dict[str, Any]] = {}
        self._bedrock = HttpServer(self._tell_of_a_model).__enter__()
        self._emulator = Emulator(Path(self._folder.name), REGION, None)
        self._emulator.start(read_template(TEMPLATE).services | {"iam", "logs", "secretsmanager", "sqs", "sts"})
        self._emulator.wait().close()
        return self

    def __exit__(self, *_: object) -> None:
        self._bedrock.__exit__()
        self._emulator.stop()
        self._folder.cleanup()

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self._emulator.url,
            "AWS_ENDPOINT_URL_BEDROCK": self._bedrock.url,
            "AWS_ACCESS_KEY_ID": self._emulator.credentials.key_id,
            "AWS_SECRET_ACCESS_KEY": self._emulator.credentials.secret,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have boto3 use it in this test."""
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)

    def client(self, service: str) -> Any:
        make: Any = boto3.client
        keys = self._emulator.credentials
        secrets = {"aws_access_key_id": keys.key_id, "aws_secret_access_key": keys.secret}
        return make(service, endpoint_url=self._emulator.url, region_name=REGION, **secrets)

    def function(self, name: str) -> dict[str, Any]:
        """A deployed function's configuration."""
        found: dict[str, Any] = self.client("lambda").get_function_configuration(FunctionName=name)
        return found

    def stack_of(self, name: str, parameters: dict[str, str]) -> dict[str, Any]:
        """What CloudFormation is given to create a stack from the template, which is too large for a request."""
        s3 = self.client("s3")
        s3.create_bucket(Bucket=CODE_BUCKET)
        s3.put_object(Bucket=CODE_BUCKET, Key=TEMPLATE_KEY, Body=read_template(TEMPLATE).body.encode())
        return {
            "StackName": name,
            "TemplateURL": f"https://s3.amazonaws.com/{CODE_BUCKET}/{TEMPLATE_KEY}",
            "Capabilities": ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
            "Parameters": [{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
        }

    def create(self, name: str, **parameters: str) -> None:
        """Create a stack with empty functions, without SAM, which is slow."""
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as writer:
            writer.writestr("README", "nothing runs here")
        s3, cloudformation = self.client("s3"), self.client("cloudformation")
        s3.create_bucket(Bucket=CODE_BUCKET)
        s3.put_object(Bucket=CODE_BUCKET, Key=CODE_KEY, Body=archive.getvalue())
        cloudformation.create_stack(**self.stack_of(name, parameters))
        cloudformation.get_waiter("stack_create_complete").wait(StackName=name, WaiterConfig={"Delay": 1})

    def update(self, name: str, **parameters: str) -> None:
        """Update a stack that `create` has made."""
        cloudformation = self.client("cloudformation")
        cloudformation.update_stack(**self.stack_of(name, parameters))
        cloudformation.get_waiter("stack_update_complete").wait(StackName=name, WaiterConfig={"Delay": 1})

    def _tell_of_a_model(self, exchange: Exchange) -> None:
        model = unquote(exchange.path.rpartition("/")[2])
        if found := self.models.get(model):
            exchange.json(found)
        else:
            exchange.json({"message": f"no model {model}"}, 404, x_amzn_ErrorType="ResourceNotFoundException")
