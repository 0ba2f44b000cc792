"""Credentials, region, endpoints and certificates, as the SDK finds them.

In Lambda the environment says all of it. Then the SDK's session, which comes with a fifth of all that a cold start
imports, is not made; the SDK makes one for profiles, files, other partitions, and credentials that expire.
"""

import re
from collections.abc import Callable
from functools import cache, partial
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from codelab.aws.errors import AwsUnreachable

if TYPE_CHECKING:
    import botocore.session

#: The versions of the services' APIs.
_VERSIONS = {"dynamodb": "2012-08-10", "lambda": "2015-03-31", "secretsmanager": "2017-10-17"}
#: Services in the names of variables.
_NAMES = {"dynamodb": "DYNAMODB", "kms": "KMS", "lambda": "LAMBDA", "secretsmanager": "SECRETS_MANAGER"}

#: Variables that change what the others mean.
_SPECIAL = (
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_USE_FIPS_ENDPOINT",
    "AWS_USE_DUALSTACK_ENDPOINT",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
)
#: Files with settings, by the variable that names them.
_FILES = {"AWS_CONFIG_FILE": "~/.aws/config", "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials"}

#: Regions whose services are at `{service}.{region}.amazonaws.com`.
_USUAL_REGION = re.compile(r"(us|eu|ap|sa|ca|me|af|il|mx)-[a-z]+-[0-9]+")


class Keys(NamedTuple):
    """Credentials that requests are signed with. token: of a role's session; None for the keys of a user."""

    access_key: str
    secret_key: str
    token: str | None


@cache
def session() -> "botocore.session.Session":
    """The SDK's session that this process uses."""
    import botocore.session

    return botocore.session.get_session()


def region() -> str:
    """The region. Raises NoRegionError."""
    name = environ.get("AWS_DEFAULT_REGION") or session().get_config_variable("region")
    if not name:
        from botocore.exceptions import NoRegionError

        raise NoRegionError
    return str(name)


def credentials() -> Callable[[], Keys]:
    """A function that returns the current credentials.

    It raises AwsUnreachable if there are none, or new ones cannot be had.
    """
    access_key, secret_key = environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY")
    expires = "AWS_CREDENTIAL_EXPIRATION" in environ
    if access_key and secret_key and not expires and "AWS_SECURITY_TOKEN" not in environ:
        return partial(Keys, access_key, secret_key, environ.get("AWS_SESSION_TOKEN"))
    return _sdks_credentials()


def endpoint(service: str) -> str:
    """The URL of a service: the configured one (AWS_ENDPOINT_URL and the like), else the region's."""
    if not _is_all_in_environment():
        return _sdks_endpoint(service)
    url = environ.get(f"AWS_ENDPOINT_URL_{_NAMES[service]}") or environ.get("AWS_ENDPOINT_URL")
    if url:
        return url
    here = region()
    return f"https://{service}.{here}.amazonaws.com" if _USUAL_REGION.fullmatch(here) else _sdks_endpoint(service)


def max_attempts() -> int:
    """How often a call is made at most: AWS_MAX_ATTEMPTS, else what a profile says, else 3. Raises ValueError."""
    setting = environ.get("AWS_MAX_ATTEMPTS")
    if not setting and not _is_all_in_environment():
        setting = session().get_config_variable("max_attempts")
    if not setting:
        return 3
    if not str(setting).isascii() or not str(setting).isdecimal() or int(setting) < 1:
        raise ValueError(f"AWS_MAX_ATTEMPTS must be a whole number from 1, not {setting!r}")
    return int(setting)


def certificates() -> tuple[str, bool]:
    """The file of the certificates to trust, and whether it is the SDK's and no configured one."""
    bundle = environ.get("AWS_CA_BUNDLE")
    if not bundle and not _is_all_in_environment():
        bundle = session().get_config_variable("ca_bundle")
    if bundle:
        return str(bundle), False
    try:
        from certifi import where
    except ImportError:
        import botocore

        return str(Path(botocore.__file__).with_name("cacert.pem")), True
    return where(), True


def _is_all_in_environment() -> bool:
    return not any(environ.get(name) for name in _SPECIAL) and not any(
        Path(environ.get(name, usual)).expanduser().is_file() for name, usual in _FILES.items()
    )


def _sdks_credentials() -> Callable[[], Keys]:
    from botocore.exceptions import BotoCoreError, NoCredentialsError

    sdk_credentials = session().get_credentials()

    def current() -> Keys:
        try:
            if sdk_credentials is None:
                raise NoCredentialsError
            now = sdk_credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise AwsUnreachable(str(error), never_arrived=True) from error
        return Keys(str(now.access_key), str(now.secret_key), now.token)

    return current


def _sdks_endpoint(service: str) -> str:
    """As the SDK's client finds it, which would also read the description of all of the service's operations."""
    from botocore.configprovider import ConfiguredEndpointProvider
    from botocore.endpoint_provider import EndpointProvider

    here = session()
    if not here.get_config_variable("ignore_configured_endpoint_urls"):
        url = ConfiguredEndpointProvider(here.full_config, here.get_scoped_config(), service).provide()
        if url:
            return str(url)
    load: Any = here.get_component("data_loader").load_data
    rules = EndpointProvider(load(f"{service}/{_VERSIONS[service]}/endpoint-rule-set-1"), load("partitions"))
    regional_endpoint = rules.resolve_endpoint(
        Region=region(),
        UseFIPS=bool(here.get_config_variable("use_fips_endpoint")),
        UseDualStack=bool(here.get_config_variable("use_dualstack_endpoint")),
    )
    return str(regional_endpoint.url)
