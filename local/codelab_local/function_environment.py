"""The environment of a function, and the third-party packages that functions import.

Later sources override earlier ones: Lambda's variables, the template, the project's local defaults, the caller's
environment (only names that the function declares or the project passes), `--env`.
"""

import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from codelab_local.deployment import Api, Function
from codelab_local.settings import Settings
from codelab_local.signatures import Credentials

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
#: `import a, b as c` and `from a import` at the top level. Reading the syntax instead takes twenty times as long.
_NAME = r"[\w.]+(?: +as +\w+)?"
_IMPORT = re.compile(rf"^(?:import +({_NAME}(?: *, *{_NAME})*) *(?:#.*)?$|from +(\w[\w.]*) +import\b)", re.MULTILINE)
_CLIENT = re.compile(r"\b(?:client|resource)\(\s*[\"']([a-z0-9-]+)[\"']")
_FROM_CALLER = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", *_PROXIES, *_CERTIFICATES)


def function_environment(
    function: Function,
    api: Api,
    settings: Settings,
    *,
    credentials: Credentials,
    emulator_url: str,
    s3_url: str,
    internal: str,
    temporary: Path,
    overlay: Mapping[str, str],
) -> dict[str, str]:
    """All variables of a function's processes. `overlay` are defaults that the local cloud sets."""
    callback = f"{internal}/{api.stage}"
    caller = settings.caller
    direct = ",".join(filter(None, (caller.get("NO_PROXY") or caller.get("no_proxy"), "127.0.0.1,localhost")))
    values = {
        **{name: caller[name] for name in _FROM_CALLER if name in caller},
        "NO_PROXY": direct,
        "no_proxy": direct,
        "TZ": ":UTC",
        "TMPDIR": str(temporary),
        "LAMBDA_TASK_ROOT": str(function.folder),
        "PYTHONPATH": os.pathsep.join(str(path) for path in (function.folder, *function.source.layers)),
        "PYTHONUNBUFFERED": "1",
        "_HANDLER": function.handler,
        "AWS_EXECUTION_ENV": f"AWS_Lambda_python{sys.version_info.major}.{sys.version_info.minor}",
        "AWS_LAMBDA_FUNCTION_NAME": function.name,
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory),
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function.name}",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_REGION": settings.region,
        "AWS_DEFAULT_REGION": settings.region,
        "AWS_ACCESS_KEY_ID": credentials.key_id,
        "AWS_SECRET_ACCESS_KEY": credentials.secret,
        "AWS_SESSION_TOKEN": "local",
        # Do not let a profile in the caller's home lead a function to a real account.
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": emulator_url,
        # The address that clients use too, because functions presign URLs for them.
        "AWS_ENDPOINT_URL_S3": s3_url,
        "AWS_ENDPOINT_URL_LAMBDA": internal,
        "AWS_ENDPOINT_URL_APIGATEWAYMANAGEMENTAPI": callback,
        "CODELAB_LOCAL": "1",
    }
    deployed = function.environment
    may_pass = settings.pass_names | deployed.keys()
    # An empty value does not replace the local cloud's own: with `LLM_BASE_URL=` the demonstration model answers.
    passed = {name: caller[name] for name in may_pass if name in caller and (caller[name] or name not in overlay)}
    address = re.compile(rf"(?:https?|wss?)://{re.escape(api.api_id)}\.execute-api\.[^/\s\"']+")
    if "AWS_ENDPOINT_URL" in settings.overrides:  # Another emulator or the cloud has its own S3.
        del values["AWS_ENDPOINT_URL_S3"]
    for layer in (deployed, settings.environment, overlay, passed, settings.overrides):
        values.update({name: address.sub(internal, value) for name, value in layer.items()})
    return values


def shared_imports(folders: Iterable[Path], preload: Collection[str] = ()) -> list[str]:
    """Modules that the sources under `folders` import at top level, found by static analysis.

    The root process imports them once for all functions. They are modules of installed packages, and of those of the
    sources' own packages that `preload` names.
    """
    roots = [folder.resolve() for folder in folders]
    own = {entry.stem for root in roots for entry in root.iterdir()} - set(preload)
    found: set[str] = set()
    for text in _sources(roots):
        for names, package in _IMPORT.findall(text):
            found.update([package] if package else [name.split()[0] for name in names.split(",")])
    # The runtime client must not be imported before the fork.
    skipped = own | set(sys.stdlib_module_names) | {"awslambdaric", "runtime_client", "__future__"}
    return sorted(name for name in found if name.split(".")[0] not in skipped)


def aws_clients(folders: Iterable[Path]) -> list[str]:
    """The services that the sources under `folders` make clients of, by static reading."""
    return sorted({name for text in _sources(folders) for name in _CLIENT.findall(text)})


def _sources(folders: Iterable[Path]) -> Iterator[str]:
    for folder in folders:
        for path in folder.rglob("*.py"):
            with suppress(OSError):  # the function's own init will say so
                yield path.read_text("utf-8", "replace")
