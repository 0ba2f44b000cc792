"""Makes tokens for users of a deployed stack, signed with the stack's secret."""

from collections.abc import Mapping, Sequence
from typing import Any

import jwt
from codelab.gateway.identity import USER_ID

from infra.stack.stack import Refused, Stack, outputs, parameters

DEFAULT_HOURS = 8.0
#: The authorizer's limit on a token's lifetime, if the stack has no parameter for it. In seconds.
DEFAULT_MAX_AGE_S = 86_400


def hours_of(written: str) -> float:
    """HOURS as a number; raises Refused."""
    try:
        hours = float(written or DEFAULT_HOURS)
    except ValueError:
        hours = 0.0
    if not 0 < hours < 1e6:
        raise Refused(f"HOURS={written} must be a positive number")
    return hours


def mint(stack: Stack, user: str, hours: float, now: float, plan: str = "") -> str:
    """A token for `user`, valid for `hours` from `now` (seconds since the epoch), with the limits of `plan`.

    Raises Refused if the stack would not accept it, or if an identity provider signs the stack's tokens.
    """
    (token,) = mint_all(stack, [user], hours, now, plan)
    return token


def mint_all(stack: Stack, users: Sequence[str], hours: float, now: float, plan: str = "") -> list[str]:
    """The same for several users."""
    for user in users:
        if not USER_ID.fullmatch(user):
            raise Refused(f"USER={user} must have 1 to 128 characters and no '#'")
    described = stack.deployed()
    values = parameters(described)
    if values.get("JwksUrl"):
        raise Refused(
            f"{stack.name} accepts only tokens of {values.get('JwtIssuer') or 'an identity provider'} "
            f'(JwksUrl={values["JwksUrl"]}): sign in there, or deploy with PARAMETERS="JwksUrl= JwtIssuer="'
        )
    most = int(values.get("JwtMaxAgeS") or DEFAULT_MAX_AGE_S)
    if hours * 3600 > most:
        raise Refused(f"HOURS={hours:g} is over the maximum of {most / 3600:g} hours of {stack.name}")
    answer = stack.client("secretsmanager").get_secret_value(SecretId=outputs(described)["JwtSecretArn"])
    claims = [_claims(values, user, int(now), int(hours * 3600)) for user in users]
    more = {"codelab_plan": plan} if plan else {}
    return [jwt.encode({**one, **more}, answer["SecretString"], algorithm="HS256") for one in claims]


def _claims(values: Mapping[str, str], user: str, now: int, seconds: int) -> dict[str, Any]:
    claims: dict[str, Any] = {"sub": user, "iat": now, "exp": now + seconds}
    if values.get("JwtIssuer"):
        claims["iss"] = values["JwtIssuer"]
    if values.get("JwtAudience"):
        claims["aud"] = values["JwtAudience"]
    return claims
