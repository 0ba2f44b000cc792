"""House rule for parameters: their descriptions are what a deployer reads."""

from cfnlint.rules import CloudFormationLintRule, RuleMatch
from cfnlint.template import Template

#: A shorter description would only repeat the name.
_LEAST_WORDS = 4


class ParametersAreDescribed(CloudFormationLintRule):  # type: ignore[misc]
    """`sam deploy --guided` and the console show a parameter's name, its default and its description."""

    id = "E9006"
    shortdesc = "Every parameter has a description"
    description = "Every parameter has a Description that says what it changes and, if it has one, its unit."
    source_url = "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/parameters-section-structure.html"

    def match(self, cfn: Template) -> list[RuleMatch]:
        matches = []
        for name, parameter in cfn.template.get("Parameters", {}).items():
            described = str(parameter.get("Description", "")).split()
            if len(described) < _LEAST_WORDS:
                message = f"{name} needs a Description that says what it changes"
                matches.append(RuleMatch(["Parameters", name], message))
        return matches
