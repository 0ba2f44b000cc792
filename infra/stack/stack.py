"""A CloudFormation stack by its name, in the account and region that the environment leads to."""

import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import boto3
from botocore.exceptions import ClientError

#: What `make deploy` alone deploys.
DEFAULT_NAME = "codelab"


class Refused(Exception):
    """Something cannot be done. The message is one line that says what is missing and how to get it."""


class Stack:
    """What there is of a stack. `region` is None where neither the environment nor the profile names one.

    Every client is boto3's own, so that AWS_ENDPOINT_URL, AWS_PROFILE and AWS_CA_BUNDLE mean what they always mean.
    """

    def __init__(self, name: str, environment: Mapping[str, str] = os.environ) -> None:
        self.name = name
        # boto3 knows only the second of the two; the AWS CLI and Lambda know the first.
        self._session = boto3.Session(region_name=environment.get("AWS_REGION") or None)
        self.region: str | None = self._session.region_name

    @property
    def argument(self) -> str:
        """How this stack is named to make: nothing for the default one."""
        return "" if self.name == DEFAULT_NAME else f" STACK={self.name}"

    @property
    def session(self) -> boto3.Session:
        return self._session

    def client(self, service: str) -> Any:
        make: Any = self._session.client
        return make(service)

    @cached_property
    def cloudformation(self) -> Any:
        return self.client("cloudformation")

    def describe(self) -> dict[str, Any] | None:
        """The stack as CloudFormation describes it now; None when there is none, or only an idea of one."""
        try:
            found: dict[str, Any] = self.cloudformation.describe_stacks(StackName=self.name)["Stacks"][0]
        except ClientError as error:
            if "does not exist" in str(error):
                return None
            raise
        return None if found["StackStatus"] in ("REVIEW_IN_PROGRESS", "DELETE_COMPLETE") else found

    def deployed(self) -> dict[str, Any]:
        """The same for what needs the stack. Raises Refused when it is not there."""
        found = self.describe()
        if found is None or not found.get("Outputs"):
            raise Refused(
                f"there is no stack {self.name} in {self.region}: deploy it with make deploy{self.argument}, "
                "or name another with STACK=… and AWS_REGION=…"
            )
        return found


def outputs(described: Mapping[str, Any]) -> dict[str, str]:
    """A stack's outputs by name."""
    return {item["OutputKey"]: item["OutputValue"] for item in described.get("Outputs", ())}


def parameters(described: Mapping[str, Any]) -> dict[str, str]:
    """A stack's parameters by name; a NoEcho one is asterisks."""
    return {item["ParameterKey"]: item.get("ParameterValue", "") for item in described.get("Parameters", ())}
