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

from codelab_local.emulator.signatures import Credentials
from codelab_local.settings.settings import Settings
from codelab_local.template.deployment import Api, Function

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
#: `import a, b as c` and `from a import b` at the top level. Reading the syntax instead takes twenty times as long.
_NAME = r"[\w.]+(?: +as +\w+)?"
_IMPORT = re.compile(
    rf"^(?:import +({_NAME}(?: *, *{_NAME})*) *(?:#.*)?$|from +(\.*[\w.]*) +import\b *(\([^)]*\)|.*))", re.MULTILINE
)
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
    template_variables = function.environment
    may_pass = settings.pass_names | template_variables.keys()
    # An empty value does not replace the local cloud's own: with an empty address the demonstration model answers.
    caller_variables = {
        name: caller[name] for name in may_pass if name in caller and (caller[name] or name not in overlay)
    }
    address = re.compile(rf"(?:https?|wss?)://{re.escape(api.api_id)}\.execute-api\.[^/\s\"']+")
    if "AWS_ENDPOINT_URL" in settings.overrides:  # Another emulator or the cloud has its own S3.
        del values["AWS_ENDPOINT_URL_S3"]
    for layer in (template_variables, settings.environment, overlay, caller_variables, settings.overrides):
        values.update({name: address.sub(internal, value) for name, value in layer.items()})
    return values


def shared_imports(folders: Iterable[Path], layers: Iterable[Path] = (), preload: Collection[str] = ()) -> list[str]:
    """Modules that functions import when they start, which the root process imports once for all of them.

    They are found by static analysis: imports at the top level of the sources under `folders`, and of those modules of
    `layers` that these import. A large package that is only imported late, or never, costs nothing.

    They are modules of installed packages, and of those of the sources' own packages that `preload` names. `preload`
    may also name modules.
    """
    ahead = [(_module(path, folder), path) for folder in folders for path in _python_files(folder)]
    in_layers = {_module(path, layer): path for layer in layers for path in _python_files(layer)}
    own = {name.split(".")[0] for name in (*in_layers, *(name for name, _ in ahead))} - set(preload)
    modules, pending = set(preload), set(preload)
    while ahead:
        for module, members in _imports(*ahead.pop()):
            modules.add(module)
            pending.update((module, *members))
        while pending:  # To import a module imports the packages around it.
            name = pending.pop()
            if name in in_layers:
                ahead.append((name, in_layers.pop(name)))
            if "." in name:
                pending.add(name.rpartition(".")[0])
    # The runtime client must not be imported before the fork.
    excluded_modules = own | set(sys.stdlib_module_names) | {"awslambdaric", "runtime_client", "__future__"}
    return sorted(name for name in modules if name.split(".")[0] not in excluded_modules)


def _imports(name: str, path: Path) -> Iterator[tuple[str, list[str]]]:
    """The modules that a source imports at its top level, each with what may be modules in it."""
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    for names, source, members in _IMPORT.findall(_text(path)):
        if names:
            yield from ((part.split()[0], []) for part in names.split(","))
            continue
        module = source.lstrip(".")
        if dots := len(source) - len(module):
            above = package.split(".")[: 1 - dots or None]
            module = ".".join(filter(None, (*above, module)))
        if module:
            parts = re.sub(r"#.*", "", members).strip("() \n").split(",")
            yield module, [f"{module}.{part.split()[0]}" for part in parts if part.strip()]


def _module(path: Path, root: Path) -> str:
    """The name of the module that `path` is with `root` on the import path."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def aws_clients(folders: Iterable[Path]) -> list[str]:
    """The services that the sources under `folders` make clients of, by static reading."""
    texts = (_text(path) for folder in folders for path in _python_files(folder))
    # The expression alone looks at every character: a twentieth of a start.
    candidates = (text for text in texts if "client(" in text or "resource(" in text)
    return sorted({name for text in candidates for name in _CLIENT.findall(text)})


def _python_files(folder: Path) -> Iterator[Path]:
    """The sources under a folder, without those of environments (`.venv`) and other things that are hidden."""
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        yield from (Path(root, name) for name in files if name.endswith(".py"))


def _text(path: Path) -> str:
    with suppress(OSError):  # the function's own init will say so
        return path.read_text("utf-8", "replace")
    return ""
