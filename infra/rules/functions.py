"""House rules for Lambda functions, applied after SAM's translation."""

from typing import Any

from cfnlint.rules import CloudFormationLintRule, RuleMatch
from cfnlint.template import Template

from infra.intrinsics import branches, statements, target, text

_FUNCTION = "AWS::Lambda::Function"
_INVOKE_CONFIG = "AWS::Lambda::EventInvokeConfig"


class AsynchronousFunctionsFailSomewhere(CloudFormationLintRule):  # type: ignore[misc]
    """By default Lambda retries a failed asynchronous event, and then drops it."""

    id = "E9002"
    shortdesc = "An asynchronously invoked function has a failure destination"
    description = (
        "A function that is invoked asynchronously has an EventInvokeConfig with MaximumRetryAttempts and an OnFailure "
        "destination, so that no input is lost and no retry races the engine's own."
    )
    source_url = "https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html"

    def match(self, cfn: Template) -> list[RuleMatch]:
        configured: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
        for name, resource in cfn.get_resources(_INVOKE_CONFIG).items():
            config = resource["Properties"]
            configured[target(config.get("FunctionName")), text(config.get("Qualifier", ""))] = name, config
        matches = []
        asynchronous = self._asynchronous(cfn)
        wanted = [(function, "$LATEST", why) for function, why in asynchronous.items()]
        for name, alias in cfn.get_resources("AWS::Lambda::Alias").items():
            function = target(alias["Properties"].get("FunctionName"))
            if function in asynchronous:  # each alias has its own, or Lambda's defaults
                wanted.append((function, text(alias["Properties"].get("Name", "")), name))
        for function, qualifier, why in wanted:
            if (function, qualifier) not in configured:
                message = f"{function}:{qualifier} is invoked asynchronously ({why}) but has no EventInvokeConfig"
                matches.append(RuleMatch(["Resources", function], message))
                continue
            name, config = configured[function, qualifier]
            path = ["Resources", name, "Properties"]
            if "MaximumRetryAttempts" not in config:
                matches.append(RuleMatch(path, f"{function}: EventInvokeConfig does not set MaximumRetryAttempts"))
            if not config.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination"):
                matches.append(RuleMatch(path, f"{function}: EventInvokeConfig has no OnFailure destination"))
        return matches

    @staticmethod
    def _asynchronous(cfn: Template) -> dict[str, str]:
        """Asynchronously invoked functions, each with what invokes it."""
        functions = cfn.get_resources(_FUNCTION)
        names = {
            text(resource.get("Properties", {}).get("FunctionName", "")): key for key, resource in functions.items()
        }
        found: dict[str, str] = {}

        def note(value: Any, why: str) -> None:
            function = target(value)
            if not function:
                written = text(value)
                function = next(
                    (key for name, key in names.items() if name and written.endswith(f":function:{name}")),
                    next((key for key in functions if f"${{{key}.Arn}}" in written), ""),
                )
            if function in functions:
                found.setdefault(function, why)

        for name, resource in cfn.get_resources(_INVOKE_CONFIG).items():
            note(resource["Properties"].get("FunctionName"), name)
            on_failure = resource["Properties"].get("DestinationConfig", {}).get("OnFailure", {})
            note(on_failure.get("Destination"), f"a destination of {name}")
        for kind, targets in (("AWS::Events::Rule", "Targets"), ("AWS::Scheduler::Schedule", "Target")):
            for name, resource in cfn.get_resources(kind).items():
                for one in branches(resource["Properties"].get(targets, [])):
                    note(one.get("Arn"), f"a target of {name}")
        for name, resource in cfn.get_resources("AWS::SNS::Subscription").items():
            if resource["Properties"].get("Protocol") == "lambda":
                note(resource["Properties"].get("Endpoint"), f"subscribed by {name}")
        for name, resource in cfn.get_resources("AWS::S3::Bucket").items():
            notified = resource.get("Properties", {}).get("NotificationConfiguration", {})
            for configuration in branches(notified.get("LambdaConfigurations", [])):
                note(configuration.get("Function"), f"notified by {name}")
        # In this system functions only invoke each other asynchronously.
        for path, statement in statements(cfn.get_resources()):
            if "lambda:InvokeFunction" in list(branches(statement.get("Action", []))):
                for value in branches(statement.get("Resource", [])):
                    note(value, f"{path[-1]} may invoke it")
        return found


class FunctionsHaveTimeoutAndLog(CloudFormationLintRule):  # type: ignore[misc]
    """Lambda's defaults are 3 seconds and a log that is kept forever."""

    id = "E9003"
    shortdesc = "A function has a timeout and its own log group with retention"
    description = "Every function sets Timeout and has its own AWS::Logs::LogGroup with RetentionInDays."
    source_url = "https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-loggroups.html"

    def match(self, cfn: Template) -> list[RuleMatch]:
        groups = cfn.get_resources("AWS::Logs::LogGroup")
        named = {text(group.get("Properties", {}).get("LogGroupName", "")): name for name, group in groups.items()}
        owners: dict[str, str] = {}
        matches = []
        for name, resource in cfn.get_resources(_FUNCTION).items():
            properties = resource.get("Properties", {})
            path = ["Resources", name]
            if "Timeout" not in properties:
                matches.append(RuleMatch(path, f"{name} has no Timeout"))
            given = properties.get("LoggingConfig", {}).get("LogGroup")
            group = target(given) or named.get(text(given)) if given is not None else None
            group = group or named.get(f"/aws/lambda/{text(properties.get('FunctionName', ''))}", "")
            if group not in groups:
                matches.append(RuleMatch(path, f"{name} has no log group in the template"))
            elif "RetentionInDays" not in groups[group].get("Properties", {}):
                matches.append(RuleMatch(["Resources", group], f"{group}, the log of {name}, has no RetentionInDays"))
            elif owners.setdefault(group, name) != name:
                matches.append(RuleMatch(path, f"{name} and {owners[group]} share the log group {group}"))
        return matches


class FunctionsHaveTheirOwnRole(CloudFormationLintRule):  # type: ignore[misc]
    """A shared role grants every function what any of them needs."""

    id = "E9005"
    shortdesc = "One role per function"
    description = "No two functions share a role, and no policy is attached to the roles of two functions."
    source_url = "https://docs.aws.amazon.com/lambda/latest/dg/lambda-intro-execution-role.html"

    def match(self, cfn: Template) -> list[RuleMatch]:
        owners: dict[str, str] = {}
        matches = []
        for name, resource in cfn.get_resources(_FUNCTION).items():
            role = text(resource.get("Properties", {}).get("Role", ""))
            if owners.setdefault(role, name) != name:
                message = f"{name} and {owners[role]} share the role {role}"
                matches.append(RuleMatch(["Resources", name, "Properties", "Role"], message))
        for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
            for name, resource in cfn.get_resources(kind).items():
                roles = list(branches(resource.get("Properties", {}).get("Roles", [])))
                if len(roles) > 1:
                    matches.append(RuleMatch(["Resources", name], f"{name} is attached to {len(roles)} roles"))
        return matches
