"""Settings from the environment, the command line and the project's pyproject.toml."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from codelab_local.host.errors import StartError
from codelab_local.http.origin_policy import ANY_ORIGIN, normal_host, normal_origin


@dataclass(frozen=True)
class Model:
    """A language model that the functions ask: the names of the variables that say which.

    url, key, name: the variables of its address, its key and its name. other_variables: more that mean nothing without
    an address. setup: a command that sets them. demo: whether the demonstration model answers without an address. file:
    the variable of a model file, which llama.cpp of the project's `.venv-llama` serves at the address.
    """

    url: str
    key: str
    name: str
    other_variables: tuple[str, ...] = ()
    setup: str = ""
    demo: bool = False
    file: str = ""


@dataclass(frozen=True)
class Authentication:
    """How the functions know their users: the names of the variables that say so.

    mode: `none` in it lets everybody in, `jwt` wants tokens, which one of `keys` verifies. sign_in: what a page needs
    to have its user sign in. issuer: where it does. origins: of others that it asks for tokens.
    """

    mode: str
    keys: tuple[str, ...]
    sign_in: tuple[str, ...] = ()
    issuer: str = ""
    origins: str = ""


@dataclass(frozen=True)
class Settings:
    """Validated settings. Durations are in seconds; `from_environment` names each field's variable."""

    template: Path
    host: str = "127.0.0.1"
    port: int = 8000
    # Normalized, see origin_policy.py.
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    state_dir: Path | None = None
    concurrency: int = 100
    cold: bool = False
    region: str = "us-east-1"
    # Scaled-down cloud times: how many seconds stand for a minute.
    schedule_minute: float = 1.0
    retry_minute: float = 1.0
    # API Gateway's quotas; shortened by tests.
    integration_timeout: float = 29.0
    idle_timeout: float = 600.0
    connection_limit: float = 7200.0
    shuffle_seed: int | None = None
    worker_idle: float = 120.0
    watch: bool = True
    # The view of the running cloud, see cloud_view.
    inspect: bool = False
    plain_emulator: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict)
    # From [tool.codelab-local].
    service: str = "local-cloud"
    version: str = "0.0.0"
    paths: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    pass_names: frozenset[str] = frozenset()
    web_paths: Mapping[str, str] = field(default_factory=dict)
    public_objects: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    model: Model | None = None
    authentication: Authentication | None = None
    greeting: tuple[str, ...] = ()
    preload: frozenset[str] = frozenset()
    page: Path | None = None
    # The command that builds the page, from --build-page.
    build_page: str = ""
    # From --env: overrides everything, in every function.
    overrides: Mapping[str, str] = field(default_factory=dict)
    caller: Mapping[str, str] = field(default_factory=dict)

    @property
    def variable_names(self) -> frozenset[str]:
        """The variables of the caller that the project names, without those that its template declares."""
        origins = self.authentication.origins if self.authentication is not None else ""
        file = self.model.file if self.model is not None else ""
        return self.pass_names | frozenset(filter(None, (origins, file)))

    @property
    def sign_in_origins(self) -> tuple[str, ...]:
        """Where the page asks for tokens: the issuer's origin and others; nowhere if users cannot sign in."""
        variables, authentication = {**self.caller, **self.overrides}, self.authentication
        if authentication is None or not authentication.sign_in:
            return ()
        if not all(variables.get(name) for name in authentication.sign_in):
            return ()
        issuer = urlsplit(variables.get(authentication.issuer, ""))
        origins = (f"{issuer.scheme}://{issuer.netloc}", *variables.get(authentication.origins, "").split(","))
        return tuple(filter(None, map(normal_origin, origins)))

    @classmethod
    def from_environment(
        cls,
        template: Path,
        environ: Mapping[str, str],
        *,
        overrides: Mapping[str, str] | None = None,
        parameters: Mapping[str, str] | None = None,
        build_page: str = "",
    ) -> "Settings":
        """Read the settings. Raises :class:`StartError` that names the invalid variable."""
        template = template.resolve()
        if not template.is_file():
            raise StartError(f"template {template} does not exist: name one with --template", 2)
        reader = _Reader(environ)
        host = environ.get("HOST", "").strip() or "127.0.0.1"
        if any(c.isspace() or c in "/?#@" for c in host) or "://" in host:
            raise StartError(f"HOST must be a host name or an IP address, not {host!r}: for example HOST=127.0.0.1", 2)
        state = environ.get("STATE_DIR", "").strip()
        project = _project(template.parent / "pyproject.toml", parameters or {})
        origins = reader.origins("ALLOWED_ORIGINS")
        _check_authentication(environ, overrides or {}, project, origins, has_parameters=bool(parameters))
        return cls(
            template=template,
            host=host,
            port=reader.integer("PORT", 8000, 0, 65535),
            allowed_hosts=reader.hosts("ALLOWED_HOSTS"),
            allowed_origins=origins,
            state_dir=Path(state).expanduser().resolve() if state else None,
            concurrency=reader.integer("LOCAL_CONCURRENCY", 100, 1, 10_000),
            cold=reader.flag("COLD"),
            region=environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1",
            schedule_minute=reader.seconds("LOCAL_SCHEDULE_MINUTE_S", 1.0),
            retry_minute=reader.seconds("LOCAL_RETRY_MINUTE_S", 1.0),
            integration_timeout=reader.seconds("GATEWAY_INTEGRATION_TIMEOUT_S", 29.0),
            idle_timeout=reader.seconds("GATEWAY_IDLE_S", 600.0),
            connection_limit=reader.seconds("GATEWAY_CONNECTION_S", 7200.0),
            shuffle_seed=reader.optional_integer("GATEWAY_SHUFFLE"),
            worker_idle=reader.seconds("LOCAL_WORKER_IDLE_S", 120.0),
            watch=not reader.flag("LOCAL_NO_WATCH"),
            inspect=reader.flag("INSPECT"),
            plain_emulator=reader.flag("LOCAL_PLAIN_EMULATOR"),
            overrides=dict(overrides or {}),
            caller=dict(environ),
            build_page=build_page,
            **project,
        )


class _Reader:
    """Reads values from the environment; an empty value counts as unset, as with `PORT= make run`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        value = self.optional_integer(name)
        if value is None:
            return default
        if not low <= value <= high:
            raise StartError(f"{name} must be an integer from {low} to {high}, not {self._environ[name]!r}", 2)
        return value

    def optional_integer(self, name: str) -> int | None:
        text = self._environ.get(name, "").strip()
        if not text:
            return None
        try:
            return int(text)
        except ValueError:
            raise StartError(f"{name} must be an integer, not {text!r}: for example {name}=8000", 2) from None

    def seconds(self, name: str, default: float) -> float:
        text = self._environ.get(name, "").strip()
        try:
            value = float(text) if text else default
        except ValueError:
            value = -1.0
        if not 0 < value < 1e9:
            raise StartError(f"{name} must be a positive number of seconds, not {text!r}", 2)
        return value

    def hosts(self, name: str) -> tuple[str, ...]:
        """Names and addresses, separated by commas."""
        entries = self._list(name)
        for entry in entries:
            if normal_host(entry) is None:
                raise StartError(
                    f"{name} must list host names without ports, not {entry!r}: for example {name}=box.lan", 2
                )
        return tuple(normal_host(entry) or "" for entry in entries)

    def origins(self, name: str) -> tuple[str, ...]:
        """Origins, separated by commas; `*` for all of them."""
        entries = self._list(name)
        for entry in entries:
            if entry != ANY_ORIGIN and normal_origin(entry) is None:
                example = f"{name}=https://ide.example.com"
                raise StartError(
                    f"{name} must list origins (scheme, host and port only), not {entry!r}: for example {example}", 2
                )
        return tuple(normal_origin(entry) or entry for entry in entries)

    def _list(self, name: str) -> list[str]:
        return [entry.strip() for entry in self._environ.get(name, "").split(",") if entry.strip()]

    def flag(self, name: str) -> bool:
        text = self._environ.get(name, "").strip().lower()
        if text not in ("", "0", "1", "false", "true", "no", "yes"):
            raise StartError(f"{name} must be 1 or 0, not {text!r}", 2)
        return text in ("1", "true", "yes")


def _check_authentication(
    environ: Mapping[str, str],
    overrides: Mapping[str, str],
    project: Mapping[str, Any],
    origins: tuple[str, ...],
    *,
    has_parameters: bool,
) -> None:
    """Raises :class:`StartError` if everybody could do everything, or nobody anything."""
    authentication: Authentication | None = project.get("authentication")
    if authentication is None:
        return
    variable, pass_names = authentication.mode, project.get("pass_names", ())
    mode = str(project.get("environment", {}).get(variable, ""))  # unless the template sets it
    if variable in overrides:
        mode = overrides[variable]
    elif variable in environ and variable in pass_names:
        mode = environ[variable]
    if ANY_ORIGIN in origins and mode == "none":
        raise StartError(
            f"ALLOWED_ORIGINS=* with {variable}=none would let every web page act as you: list the origins, for "
            f"example ALLOWED_ORIGINS=https://ide.example.com, or set {variable}=jwt",
            2,
        )
    keys, variables = authentication.keys, {**environ, **overrides}
    takes_key = any(key in pass_names for key in keys) and not has_parameters
    if mode == "jwt" and takes_key and not any(variables.get(key) for key in keys):
        # The functions would verify tokens with the template's own secret, which is random and which nobody has.
        raise StartError(f"{variable}=jwt needs the key that verifies tokens: set {' or '.join(keys)}", 2)


def _table(kind: type) -> Callable[[Mapping[str, Any]], Any]:
    """Reads a table into a dataclass, lists as tuples. Raises TypeError."""
    return lambda values: kind(
        **{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    )


def _texts(values: Mapping[Any, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in values.items()}


#: The keys of `[tool.codelab-local]`, each with its type and with what reads its value.
_TABLE: dict[str, tuple[type, Callable[[Any], Any]]] = {
    "paths": (list, lambda values: tuple(map(str, values))),
    "parameters": (dict, _texts),
    "environment": (dict, _texts),
    "pass": (list, lambda values: frozenset(map(str, values))),
    "web_paths": (dict, _texts),
    "public_objects": (dict, lambda buckets: {str(name): tuple(prefixes) for name, prefixes in buckets.items()}),
    "model": (dict, _table(Model)),
    "authentication": (dict, _table(Authentication)),
    "service": (str, str),
    "greeting": (list, lambda values: tuple(map(str, values))),
    "preload": (list, lambda values: frozenset(map(str, values))),
    "page": (str, Path),
}


def _project(path: Path, parameters: Mapping[str, str]) -> dict[str, Any]:
    """The `[tool.codelab-local]` table beside the template. Every key is optional; `parameters` override its own."""
    if not path.is_file():
        return {"parameters": dict(parameters)}
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StartError(f"{path} is not valid TOML: {error}") from None
    table = document.get("tool", {}).get("codelab-local", {})
    fields: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _TABLE:
            raise StartError(f"{path}: [tool.codelab-local] has no setting {key!r}; valid are {', '.join(_TABLE)}")
        kind, read_value = _TABLE[key]
        if not isinstance(value, kind):
            raise StartError(f"{path}: [tool.codelab-local] {key} must be a {kind.__name__}")
        try:
            fields["pass_names" if key == "pass" else key] = read_value(value)
        except TypeError as error:
            raise StartError(f"{path}: [tool.codelab-local] {key}: {error}") from None
    fields["parameters"] = {**fields.get("parameters", {}), **parameters}
    if "page" in fields:
        fields["page"] = path.parent / fields["page"]
    if "version" in document.get("project", {}):
        fields["version"] = str(document["project"]["version"])
    return fields
