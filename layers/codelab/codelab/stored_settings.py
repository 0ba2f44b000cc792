"""Settings that are too large for a function's environment: `LargeSettings` keeps them in Secrets Manager."""

import json
from collections.abc import Mapping

from codelab import aws
from codelab.config import ConfigurationError

#: No others: whoever may write the secret must not choose who is let in.
_STORED = ("LLM_PRICES", "LLM_CAPABILITIES", "PLAN_LIMITS")


def read_stored_settings(arn: str) -> Mapping[str, str]:
    """The settings that are JSON, by variable.

    In the secret, each is a list of one value, or of none if it is not set. Raises ConfigurationError, AwsError.
    """
    try:
        lists = json.loads(aws.secrets_client().get(arn))
        return {variable: json.dumps(lists[variable][0]) for variable in _STORED if lists[variable]}
    except (ValueError, LookupError, TypeError):
        raise ConfigurationError(f"SETTINGS_SECRET_ARN={arn}: not the stack's JSON; deploy again") from None
