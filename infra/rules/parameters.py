"""House rule for parameters: who deploys reads their descriptions, and little else."""

from cfnlint.rules import CloudFormationLintRule, RuleMatch
from cfnlint.template import Template

#: A description that is shorter says the name again.
_LEAST_WORDS = 4


class ParametersAreDescribed(CloudFormationLintRule):  # type: ignore[misc]
    """`sam deploy --guided` and the console show a parameter's name, its default and its description."""

    id = "E9006"
    shortdesc = "Every parameter has a description"
    description = "Every parameter says in its Description what it changes, and its unit where it has one."
    source_url = "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/parameters-section-structure.html"

    def match(self, cfn: Template) -> list[RuleMatch]:
        matches = []
        for name, parameter in cfn.template.get("Parameters", {}).items():
            described = str(parameter.get("Description", "")).split()
            if len(described) < _LEAST_WORDS:
                message = f"{name} has no Description that says what it changes"
                matches.append(RuleMatch(["Parameters", name], message))
        return matches
