"""Deletes a stack and everything that it leaves behind.

CloudFormation keeps the table and the bucket when it deletes the stack, so that nobody loses sessions by mistake. Their
names stay in the deleted stack's events for ninety days. This module reads them from there, so it also finds what an
interrupted run, or a deletion in the console, left behind.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from botocore.exceptions import ClientError, WaiterError

from infra.stack.preflight import log_groups
from infra.stack.stack import Refused, Stack, outputs

_TABLE = "AWS::DynamoDB::Table"
_BUCKET = "AWS::S3::Bucket"
#: The SAM CLI's own stack, with the bucket for its uploads.
_SAM_STACK = "aws-sam-cli-managed-default"
_GONE = ("ResourceNotFoundException", "NoSuchBucket", "404")


@dataclass(frozen=True)
class Kept:
    """A resource that CloudFormation does not delete with its stack."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{'table' if self.kind == _TABLE else 'bucket' if self.kind == _BUCKET else self.kind} {self.name}"

    @property
    def command(self) -> str:
        """The command that deletes it."""
        if self.kind == _TABLE:
            table = f"--table-name {self.name}"
            unprotect = f"aws dynamodb update-table {table} --no-deletion-protection-enabled"
            return f"{unprotect} && aws dynamodb delete-table {table}"
        return f"aws s3 rb --force s3://{self.name}"


def destroy(
    stack: Stack, template: Mapping[str, Any], ask: Callable[[str], str] | None, *, keep_data: bool, out: TextIO
) -> None:
    """Delete the stack and its data. `ask` asks the user for confirmation; None: already confirmed.

    Raises Refused if the user does not confirm or CloudFormation cannot delete the stack.
    """

    def say(line: str) -> None:
        out.write(f"{line}\n")
        out.flush()

    described = stack.describe()
    data = sorted({*_data_of(stack, described), *_left_by_earlier(stack)}, key=str)
    logs = log_groups(stack, template) if described is None else []
    if described is None and not data and not logs:
        _remove_uploads(stack)
        say(f"No stack {stack.name} in {stack.region}, and no leftovers of one.")
        return
    say(f"Will be deleted in {stack.region}: {_list(stack, described, data, logs, keep_data)}.")
    if ask is not None and ask(f"Type {stack.name} to delete this permanently: ").strip() != stack.name:
        raise Refused("nothing was deleted")
    if described is not None:
        _delete_stack(stack, described["StackId"], say)
        data = sorted({*data, *_left_by_earlier(stack)}, key=str)
    _delete_logs(stack, template)
    bucket = _remove_uploads(stack)
    if keep_data:
        for one in data:
            say(f"Kept, and billed by its size: {one}. To delete it, run make destroy{stack.argument}, or")
            say(f"  {one.command}")
    else:
        for one in data:
            _delete(stack, one, say)
    if bucket:
        say(f"Kept: SAM's bucket {bucket}, shared by the region's SAM applications, without anything of {stack.name}.")
    if any(one.kind == _TABLE for one in data) and not keep_data:
        say("DynamoDB keeps a free backup of a deleted table for 35 days.")
    say(f"{stack.name} is deleted." if not keep_data or not data else f"{stack.name} is deleted, except for its data.")


def _list(stack: Stack, described: Mapping[str, Any] | None, data: list[Kept], logs: list[str], keep_data: bool) -> str:
    what = [f"the stack {stack.name}"] if described else []
    what += [] if keep_data else [str(one) for one in data]
    what += [f"{len(logs)} log groups"] if logs else []
    kept = f" (kept: {', '.join(map(str, data))})" if keep_data and data else ""
    return ", ".join(what) + kept


def delete_unused(stack: Stack, described: Mapping[str, Any], say: Callable[[str], None]) -> None:
    """Delete the empty table and bucket of a stack without asking. Raises Refused if the table has an item."""
    data = list(_data_of(stack, described))
    for kept in data:
        if kept.kind == _TABLE and _is_there(stack, kept) and _has_items(stack, kept.name):
            raise Refused(f"{kept} has data: run make destroy{stack.argument}, which asks, then deploy again")
    for kept in data:  # not before: the objects of a table's sessions are in the bucket
        _delete(stack, kept, say)


def _data_of(stack: Stack, described: Mapping[str, Any] | None) -> Iterator[Kept]:
    """The resources of an existing stack that CloudFormation will keep."""
    if described is None:
        return
    pages = stack.cloudformation.get_paginator("list_stack_resources").paginate(StackName=described["StackId"])
    for page in pages:
        for one in page["StackResourceSummaries"]:
            if one["ResourceType"] in (_TABLE, _BUCKET) and one.get("PhysicalResourceId"):
                yield Kept(one["ResourceType"], one["PhysicalResourceId"])


def _left_by_earlier(stack: Stack) -> Iterator[Kept]:
    """The resources of deleted stacks with this name that still exist."""
    pages = stack.cloudformation.get_paginator("list_stacks").paginate(StackStatusFilter=["DELETE_COMPLETE"])
    ids = [one["StackId"] for page in pages for one in page["StackSummaries"] if one["StackName"] == stack.name]
    for stack_id in ids:
        events = stack.cloudformation.get_paginator("describe_stack_events").paginate(StackName=stack_id)
        for event in (event for page in events for event in page["StackEvents"]):
            if event["ResourceStatus"] == "DELETE_SKIPPED" and event.get("PhysicalResourceId"):
                kept = Kept(event["ResourceType"], event["PhysicalResourceId"])
                if _is_there(stack, kept):
                    yield kept


def _is_there(stack: Stack, kept: Kept) -> bool:
    try:
        if kept.kind == _TABLE:
            status = stack.client("dynamodb").describe_table(TableName=kept.name)["Table"]["TableStatus"]
            return bool(status != "DELETING")
        if kept.kind == _BUCKET:
            stack.client("s3").head_bucket(Bucket=kept.name)
            return True
    except ClientError as error:
        if error.response["Error"]["Code"] in _GONE:
            return False
        raise
    return False


def _has_items(stack: Stack, table: str) -> bool:
    return bool(stack.client("dynamodb").scan(TableName=table, Limit=1)["Items"])


def _delete_stack(stack: Stack, stack_id: str, say: Callable[[str], None]) -> None:
    stack.cloudformation.delete_stack(StackName=stack_id)
    say(f"CloudFormation deletes {stack.name}; this takes a few minutes …")
    try:
        waiter = stack.cloudformation.get_waiter("stack_delete_complete")
        waiter.wait(StackName=stack_id, WaiterConfig={"Delay": 5, "MaxAttempts": 360})
    except WaiterError:
        events = stack.cloudformation.describe_stack_events(StackName=stack_id)["StackEvents"]
        why = [
            f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason', '')}"
            for event in events
            if event["ResourceStatus"] == "DELETE_FAILED"
        ]
        raise Refused(
            f"CloudFormation could not delete {stack.name}; fix this and run make destroy{stack.argument} again: "
            f"{'; '.join(why) or 'no reason given'}"
        ) from None


def _delete(stack: Stack, kept: Kept, say: Callable[[str], None]) -> None:
    try:
        if kept.kind == _TABLE:
            _delete_table(stack.client("dynamodb"), kept.name)
        elif kept.kind == _BUCKET:
            s3 = stack.client("s3")
            empty(s3, kept.name)
            s3.delete_bucket(Bucket=kept.name)
        else:
            say(f"Kept, because this command cannot delete it: {kept}.")
            return
    except ClientError as error:
        if error.response["Error"]["Code"] not in _GONE:
            raise
    say(f"Deleted: {kept}.")


def _delete_table(dynamodb: Any, name: str) -> None:
    """Lift the table's protection and delete it. If this process dies in between, the next one finds it unprotected."""
    if dynamodb.describe_table(TableName=name)["Table"].get("DeletionProtectionEnabled"):
        dynamodb.update_table(TableName=name, DeletionProtectionEnabled=False)
        dynamodb.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
    dynamodb.delete_table(TableName=name)


def empty(s3: Any, bucket: str, prefix: str = "") -> None:
    """Delete every version of every object under `prefix`."""
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix):
        found = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
        if found:
            objects = [{"Key": one["Key"], "VersionId": one["VersionId"]} for one in found]
            failed = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True}).get("Errors")
            if failed:
                raise Refused(f"cannot delete {bucket}/{failed[0]['Key']}: {failed[0].get('Message')}")


def _delete_logs(stack: Stack, template: Mapping[str, Any]) -> None:
    """Delete log groups that CloudFormation deleted but a function's last log lines created again."""
    logs = stack.client("logs")
    for group in log_groups(stack, template):
        logs.delete_log_group(logGroupName=group)


def _remove_uploads(stack: Stack) -> str:
    """Delete the code that SAM uploaded for this stack. Returns the bucket's name, or an empty string."""
    bucket = outputs(stack.describe(_SAM_STACK) or {}).get("SourceBucket", "")
    if bucket:
        empty(stack.client("s3"), bucket, f"{stack.name}/")
    return bucket
