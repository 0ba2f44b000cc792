"""House rules for distributions of CloudFront: what they keep, and how their origins know them."""

from typing import Any

from cfnlint.rules import CloudFormationLintRule, RuleMatch
from cfnlint.template import Template

from infra.intrinsics import branches, target, text

_DISTRIBUTION, _POLICY = "AWS::CloudFront::Distribution", "AWS::CloudFront::CachePolicy"
#: AWS's own policies, by their ids: CachingDisabled and AllViewerExceptHostHeader.
_NOTHING_KEPT, _ALL_BUT_HOST = "4135ea2d-6df8-44a3-9df3-4b5a84be39ad", "b689b0a8-53d0-40ab-baf2-68738e2966ac"
_SECRET = "{{resolve:secretsmanager:${"


class EdgesKeepNothingOfUsers(CloudFormationLintRule):  # type: ignore[misc]
    """What CloudFront keeps, or answers two simultaneous requests with, it gives to the next user."""

    id = "E9011"
    shortdesc = "A distribution keeps only assets, and those without what identifies a user"
    description = (
        "Every cache behaviour has the policies CachingDisabled and AllViewerExceptHostHeader, or a cache policy of "
        "the template that keeps nothing by default and no origin request policy, so that no token and no cookie is "
        "sent along."
    )
    source_url = (
        "https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/cache-key-understand-cache-policy.html"
    )

    def match(self, cfn: Template) -> list[RuleMatch]:
        policies = cfn.get_resources(_POLICY)
        keepable = {name for name, policy in policies.items() if _is_of_nobody(policy["Properties"])}
        return [
            RuleMatch(["Resources", name, "Properties", "DistributionConfig"], f"{name}: {problem}")
            for name, distribution in cfn.get_resources(_DISTRIBUTION).items()
            for problem in _kept(distribution["Properties"]["DistributionConfig"], keepable)
        ]


class EdgesAreKnownByASecret(CloudFormationLintRule):  # type: ignore[misc]
    """An origin has an address of its own, at which nobody has passed the distribution's firewall."""

    id = "E9012"
    shortdesc = "A distribution sends a secret to its origins, encrypted"
    description = (
        "Every origin is asked over HTTPS only, with a header whose value is a reference to a secret of the template; "
        "viewers may not use plain HTTP."
    )
    source_url = "https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/add-origin-custom-headers.html"

    def match(self, cfn: Template) -> list[RuleMatch]:
        return [
            RuleMatch(["Resources", name, "Properties", "DistributionConfig"], f"{name}: {problem}")
            for name, distribution in cfn.get_resources(_DISTRIBUTION).items()
            for problem in _unknown(distribution["Properties"]["DistributionConfig"])
        ]


def _behaviours(config: dict[str, Any]) -> list[dict[str, Any]]:
    return [config["DefaultCacheBehavior"], *branches(config.get("CacheBehaviors", []))]


def _is_of_nobody(policy: dict[str, Any]) -> bool:
    """Whether a cache policy passes on neither headers nor cookies, and keeps only what the origin says."""
    config = policy["CachePolicyConfig"]
    key = config["ParametersInCacheKeyAndForwardedToOrigin"]
    passed_on = {key["CookiesConfig"]["CookieBehavior"], key["HeadersConfig"]["HeaderBehavior"]}
    return passed_on == {"none"} and config["MinTTL"] == config["DefaultTTL"] == 0


def _kept(config: dict[str, Any], keepable: set[str]) -> list[str]:
    problems = []
    for behaviour in _behaviours(config):
        cache, forwarding = behaviour.get("CachePolicyId"), behaviour.get("OriginRequestPolicyId")
        is_asset = target(cache) in keepable and forwarding is None
        if (cache, forwarding) != (_NOTHING_KEPT, _ALL_BUT_HOST) and not is_asset:
            problems.append(f"{behaviour.get('PathPattern', 'the default behaviour')} may keep what is for one user")
    return problems


def _unknown(config: dict[str, Any]) -> list[str]:
    problems = []
    for origin in branches(config.get("Origins", [])):
        if origin.get("CustomOriginConfig", {}).get("OriginProtocolPolicy") != "https-only":
            problems.append(f"the origin {origin['Id']} is not asked over HTTPS only")
        headers = [text(header["HeaderValue"]) for header in origin.get("OriginCustomHeaders", [])]
        if not any(value.startswith(_SECRET) for value in headers):
            problems.append(f"the origin {origin['Id']} gets no secret of the template")
    for behaviour in _behaviours(config):
        if behaviour.get("ViewerProtocolPolicy") not in ("https-only", "redirect-to-https"):
            problems.append(f"{behaviour.get('PathPattern', 'the default behaviour')} takes plain HTTP")
    return problems
