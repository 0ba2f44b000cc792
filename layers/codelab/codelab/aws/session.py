"""The SDK's session: credentials, region and endpoints from the environment, profiles and the machine's role."""

from functools import cache
from typing import Any

import botocore.session
from botocore.configprovider import ConfiguredEndpointProvider
from botocore.endpoint_provider import EndpointProvider
from botocore.exceptions import NoRegionError

#: The versions of the services' APIs.
_VERSIONS = {"dynamodb": "2012-08-10", "lambda": "2015-03-31"}


@cache
def session() -> botocore.session.Session:
    """The session that this process uses."""
    return botocore.session.get_session()


def region() -> str:
    """The region. Raises NoRegionError."""
    found = session().get_config_variable("region")
    if not found:
        raise NoRegionError
    return str(found)


def endpoint(service: str) -> str:
    """The URL of a service: the configured one (AWS_ENDPOINT_URL and the like), else the region's.

    The SDK's client would also read the description of all of the service's operations, which takes longer than all
    else in a cold start.
    """
    here = session()
    if not here.get_config_variable("ignore_configured_endpoint_urls"):
        configured = ConfiguredEndpointProvider(here.full_config, here.get_scoped_config(), service).provide()
        if configured:
            return str(configured)
    load: Any = here.get_component("data_loader").load_data
    rules = EndpointProvider(load(f"{service}/{_VERSIONS[service]}/endpoint-rule-set-1"), load("partitions"))
    found = rules.resolve_endpoint(
        Region=region(),
        UseFIPS=bool(here.get_config_variable("use_fips_endpoint")),
        UseDualStack=bool(here.get_config_variable("use_dualstack_endpoint")),
    )
    return str(found.url)
