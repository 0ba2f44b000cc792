"""A CloudFormation stack, in the environment's account and region."""

import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import boto3
from botocore.exceptions import ClientError

#: The stack that `make deploy` without STACK deploys.
DEFAULT_NAME = "codelab"


class Refused(Exception):
    """A command cannot be executed. The message is one line with the problem and its solution."""


class Stack:
    """A stack by name. `region` is None if neither the environment nor the profile sets one.

    Clients are plain boto3 clients, so AWS_ENDPOINT_URL, AWS_PROFILE and AWS_CA_BUNDLE work as usual.
    """

    def __init__(self, name: str, environment: Mapping[str, str] = os.environ) -> None:
        self.name = name
        # boto3 only reads AWS_DEFAULT_REGION; the AWS CLI and Lambda also use AWS_REGION.
        self.session = boto3.Session(region_name=environment.get("AWS_REGION") or None)
        self.region: str | None = self.session.region_name

    @property
    def argument(self) -> str:
        """The argument that names this stack to make; empty for the default stack."""
        return "" if self.name == DEFAULT_NAME else f" STACK={self.name}"

    def client(self, service: str) -> Any:
        make: Any = self.session.client
        return make(service)

    @cached_property
    def cloudformation(self) -> Any:
        return self.client("cloudformation")

    def describe(self, name: str = "") -> dict[str, Any] | None:
        """CloudFormation's description of this stack (or of `name`); None if it does not exist or was never created."""
        try:
            found: dict[str, Any] = self.cloudformation.describe_stacks(StackName=name or self.name)["Stacks"][0]
        except ClientError as error:
            if "does not exist" in str(error):
                return None
            raise
        return None if found["StackStatus"] in ("REVIEW_IN_PROGRESS", "DELETE_COMPLETE") else found

    def deployed(self) -> dict[str, Any]:
        """The same, but raises Refused if the stack does not exist."""
        found = self.describe()
        if found is None or not found.get("Outputs"):
            raise Refused(
                f"no stack {self.name} in {self.region}: deploy it with make deploy{self.argument}, "
                "or choose another with STACK=… and AWS_REGION=…"
            )
        return found


def outputs(described: Mapping[str, Any]) -> dict[str, str]:
    """A stack's outputs by name."""
    return {item["OutputKey"]: item["OutputValue"] for item in described.get("Outputs", ())}


def parameters(described: Mapping[str, Any]) -> dict[str, str]:
    """A stack's parameters by name; NoEcho values are asterisks."""
    return {item["ParameterKey"]: item.get("ParameterValue", "") for item in described.get("Parameters", ())}


def websocket_address(found: Mapping[str, str]) -> str:
    """Of a stack's outputs, where clients connect: with `{session_id}` in place of the session's id."""
    url = found["WebSocketUrl"]
    return url if "{session_id}" in url else f"{url}?session_id={{session_id}}"
