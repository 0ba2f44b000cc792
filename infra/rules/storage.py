"""House rule for tables: what nobody can make again must not be lost by one wrong command."""

from typing import Any

from cfnlint.rules import CloudFormationLintRule, RuleMatch
from cfnlint.template import Template

_KEPT = ("Retain", "RetainExceptOnCreate")


class TablesAreProtected(CloudFormationLintRule):  # type: ignore[misc]
    """Deleting or replacing a table, in CloudFormation or by hand, loses all that users have said."""

    id = "E9009"
    shortdesc = "A table is protected from deletion, survives its stack, and can be restored"
    description = (
        "Every table has DeletionProtectionEnabled and point-in-time recovery, and CloudFormation keeps it when the "
        "stack is deleted or the table would be replaced."
    )
    source_url = (
        "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/WorkingWithTables.Basics.html"
        "#WorkingWithTables.Basics.DeletionProtection"
    )

    def match(self, cfn: Template) -> list[RuleMatch]:
        return [
            RuleMatch(["Resources", name], f"{name} {problem}")
            for name, table in cfn.get_resources("AWS::DynamoDB::Table").items()
            for problem in _problems(table)
        ]


def _problems(table: dict[str, Any]) -> list[str]:
    properties = table.get("Properties", {})
    recovery = properties.get("PointInTimeRecoverySpecification", {})
    checks = {
        "has no DeletionProtectionEnabled: true": properties.get("DeletionProtectionEnabled") is True,
        "has no point-in-time recovery": recovery.get("PointInTimeRecoveryEnabled") is True,
        "is deleted with its stack: set DeletionPolicy": table.get("DeletionPolicy") in _KEPT,
        "is deleted when it is replaced: set UpdateReplacePolicy": table.get("UpdateReplacePolicy") in _KEPT,
    }
    return [problem for problem, is_right in checks.items() if not is_right]
