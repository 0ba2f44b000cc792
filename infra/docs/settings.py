"""docs/settings.md: every environment variable that an operator sets, with its default as the code has it."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from codelab.config import USUAL_LIMITS, Limits, Settings
from codelab_local.settings.settings import Settings as LocalSettings

from infra.docs.markdown import note, page_heading, table
from infra.sam_template import parse

_ABOUT = """\
Environment variables of `make run` and of the local cloud that `codelab` starts. In the cloud they are parameters of
the stack: `make deploy` does not read the variables. The second column has the parameter's name; where it is blank,
only the local cloud has the setting. [parameters.md](parameters.md) also lists those that only exist in the cloud.

An empty variable counts as unset. A wrong value is refused with the variable's name and what is allowed.
"""
#: Of Settings: the template sets them, or the local cloud.
_INTERNAL = frozenset(
    {
        *("TABLE_NAME", "PAYLOAD_BUCKET", "PAYLOAD_ORIGIN", "CONNECTIONS_URL", "LLM_FUNCTION", "CONTROL_FUNCTION"),
        *("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "JWT_SECRET_ARN", "LLM_API_KEY_SECRET_ARN", "CODELAB_LOCAL"),
        *("METRICS", "REST_STREAMING", "WEBSOCKET_ADDRESS", "EDGE_SECRET_ARN"),
        *("WEBHOOK_EVENTS", "WEBHOOK_FORMAT", "WEBHOOK_SECRET_ARN", "PAGE_URL"),
        *("WEB_PUSH_KEY", "WEB_PUSH_HOSTS"),
    }
)
_SECTIONS: dict[str, dict[str, str]] = {
    "The model": {
        "LLM_BASE_URL": "the address of the model's endpoint, up to `/v1`, or `/api` for Ollama's own API; without it "
        "the demonstration model answers",
        "LLM_API_KEY": "its key",
        "LLM_ENTRA_TENANT": "the tenant of an application of Microsoft Entra, for an "
        "[Azure OpenAI that takes no keys](models.md#azure-with-microsoft-entra)",
        "LLM_ENTRA_CLIENT_ID": "its client id; `LLM_API_KEY` is then its secret",
        "LLM_ENTRA_AUTHORITY": "where it signs in, if not at `https://login.microsoftonline.com`",
        "LLM_MODEL": "the model",
        "LLM_PROVIDER": "the provider's profile, which determines what the endpoint speaks and how to get answers that "
        "are valid for a JSON Schema, see [request.md](request.md)",
        "LLM_CLIENT": "what calls the model: `direct`, the project's own client, or `openai`, the openai SDK, for an "
        "endpoint that works with nothing else",
        "LLM_MODELS": "models that clients may choose instead of `LLM_MODEL`, separated by commas. A model in an "
        "agent's own `[model]` needs no entry",
        "LLM_CAPABILITIES": "what models can take that the server's table does not know: "
        '`{"my-model": {"window": 65536, "images": true, "thinking": ["none", "high"]}}`',
        "LLM_PRICES": "prices by model in US dollars per million model tokens, so that `turn_end` reports the cost: "
        '`{"gpt-4.1-mini": {"prompt": 0.4, "completion": 1.6, "cached": 0.1}}`. '
        "`cache_write` is the price of tokens that are written to the cache",
    },
    "Approvals": {
        "HITL_ENABLED": "dangerous tools wait for a human's approval. Commands, and changes of "
        "[protected paths](tools.md#protected-paths), always do",
        "HITL_DANGEROUS_TOOLS": "replaces the list of tools that need approval, or extends it with a leading `+`. A "
        "listed tool needs approval in an autonomous session too",
        "HITL_STRICT": "refuse a result for a call that still awaits approval, instead of taking the result as the "
        "approval",
        "REMEMBER_COMMANDS": "lets a user allow exactly the same `run_command` again in a session, "
        "[until a file may have changed](protocol.md#remembered-commands). Not on Windows",
        "SANDBOXED_COMMANDS": "lets a user allow exactly the same `run_command` for a session "
        "[in the client's sandbox](protocol.md#commands-in-a-sandbox). The local cloud sets it to `true`",
        "APPROVAL_TIMEOUT_S": "how long a human may take, in seconds. Without an answer in time, the call is rejected",
    },
    "Turns": {
        "DEFAULT_AGENT": "the agent of new sessions. With `orchestrator`, the model chooses one for the first message; "
        "`auto` is `orchestrator`, and `universal` for llama.cpp and Ollama, see [agents.md](agents.md)",
        "TOOL_TIMEOUT_S": "how long a tool may take, in seconds",
        "MAX_STEPS": "steps per turn; the model answers once per step",
        "MAX_REPEATS": "equal calls with equal results that end a turn, if nothing new was done in between. The model "
        "is told at the third. 0 means no limit",
        "MAX_CONTEXT_TOKENS": "how many model tokens of a session the model gets; `auto` is what fits its window, at "
        "most 128,000. A summary replaces older messages, see [agents.md](agents.md)",
        "MAX_CONTEXT_MESSAGES": "how many messages of a session the model gets; `auto` is 400",
        "STREAM_MAX_DELAY_MS": "how long text may be collected before it is sent, in a long answer, in milliseconds; a "
        "short one begins with 100",
        "EVENT_RETENTION_S": "how long sent frames are kept for clients that reconnect, in seconds",
        "SESSION_RETENTION_DAYS": "days without a message after which a session is erased with all that is stored of "
        "it, unless a client is connected. 0 means never",
        "PATHS_LENIENT": "remove one leading `/` from a tool's path; always so in the cloud",
        "AWS_CLIENT": "what calls AWS: `direct`, the project's own client, or `boto3`, the SDK, for an account or a "
        "network that works with nothing else",
        "LOG_LEVEL": "`DEBUG`, `INFO`, `WARNING` or `ERROR`",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "the address of an OpenTelemetry collector (OTLP over HTTP) that gets a "
        "[trace of each turn](operations.md#of-turns); without one there are no traces",
        "OTEL_TRACES_SAMPLER_ARG": "the share of all turns that are traced, from 0 to 1",
    },
    "Who may use it": {
        "AUTH_MODE": "with `none`, every client is the user `local`. With `jwt`, set `JWT_SECRET` or `JWKS_URL`. In "
        "the cloud a token is always needed",
        "JWT_SECRET": "the key of tokens (HS256). In the cloud, Secrets Manager makes it",
        "JWKS_URL": "where an identity provider's public keys are",
        "JWT_ISSUER": "if set, a token must have this value in `iss`",
        "JWT_AUDIENCE": "if set, a token must have this value in `aud`",
        "JWT_CLIENT_ID": "the client id that clients sign in with at `JWT_ISSUER`; `GET /client-config` tells it to "
        "them",
        "JWT_MAX_AGE_S": "the longest time from `iat` to `exp` of a token, in seconds. A token without both is refused",
        "SIGN_IN_ORIGINS": "other origins of the identity provider that the page asks for tokens, separated by commas",
        "ALLOWED_ORIGINS": "web pages that may use the system, separated by commas: `https://ide.example.com`. The "
        "local cloud always allows local pages. `*` allows all and needs `AUTH_MODE=jwt`",
        "ALLOWED_HOSTS": "host names of the local cloud besides `HOST` and the loopback names, separated by commas: "
        "`box.lan`",
    },
    "What a user may use": {
        "MESSAGES_PER_MINUTE": "messages",
        "REQUESTS_PER_MINUTE": "calls to the model",
        "CONNECTIONS_PER_MINUTE": "new connections: WebSockets, and streams over HTTP",
        "TOKENS_PER_DAY": "model tokens, input and output, per day (UTC)",
        "STORED_BYTES_PER_DAY": "bytes per day (UTC) in uploads, context files, arguments of calls over HTTP, and "
        "sessions",
        "OPEN_TURNS": "turns that a user may have open at once, waiting ones included, 90 at most. `POST /requests` "
        "has the same limit",
        "PLAN_LIMITS": "other limits for tokens with the claim `codelab_plan`: "
        '`{"team": {"open_turns": 50, "tokens_per_day": 50000000}}`',
    },
    "The local cloud": {
        "HOST": "the address that it listens on",
        "PORT": "the port",
        "STATE_DIR": "a folder that keeps sessions across restarts. `make run` has one of its own for each checkout; "
        "`STATE_DIR=` keeps them in memory only",
        "LLM_GGUF": "a model file that llama.cpp serves at `LLM_BASE_URL` meanwhile; `codelab setup --gguf` sets it",
        "LOCAL_CONCURRENCY": "functions that run at once",
        "INSPECT": "`1` prints the address of a page that shows [what the functions do](page.md#cloud-view)",
    },
}
_BEHIND = {
    "What a user may use": "0 means no limit. The limits apply to all sessions of a user together. With "
    "`AUTH_MODE=none` all clients are one user, so there are none unless you set them.\n"
}
#: Defaults that are not those of a field.
_DEFAULTS = {
    "LLM_MODEL": "the demonstration model; with `LLM_BASE_URL`, `gpt-4.1-mini`",
    "AUTH_MODE": "`none`",
    "SIGN_IN_ORIGINS": "",
    "ALLOWED_ORIGINS": "",
    "LOCAL_CONCURRENCY": f"`{LocalSettings.concurrency}`",
    "INSPECT": "",
    "OTEL_TRACES_SAMPLER_ARG": "`1`",
}
#: Variables whose names are OpenTelemetry's, and their parameters.
_PARAMETERS = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "TracesEndpoint", "OTEL_TRACES_SAMPLER_ARG": "TracesRatio"}


def page(template: Path) -> str:
    """The page. Raises ValueError if a setting of the code is not on it."""
    declared = {name.casefold(): name for name in parse(template)["Parameters"]}
    described = {name for section in _SECTIONS.values() for name in section}
    if missing := _defaults().keys() - described - _INTERNAL:
        raise ValueError(f"infra/docs/settings.py says nothing about {', '.join(sorted(missing))}")
    lines = [note("infra/docs/settings.py and the settings' code"), page_heading("Settings"), _ABOUT]
    for title, section in _SECTIONS.items():
        rows = [
            (
                f"`{name}`",
                f"`{parameter}`" if (parameter := _parameter(name, declared)) else "",
                _default(name),
                meaning,
            )
            for name, meaning in section.items()
        ]
        lines += [f"## {title}\n", *table(("variable", "parameter", "default", "what it does"), rows), ""]
        lines += [_BEHIND[title]] if title in _BEHIND else []
    return "\n".join(lines)


def _parameter(variable: str, declared: dict[str, str]) -> str:
    return _PARAMETERS.get(variable) or declared.get(variable.replace("_", "").casefold(), "")


def _defaults() -> dict[str, Any]:
    """By variable, the default of the functions' settings."""
    return {field.name.upper(): field.default for field in fields(Settings)}


def _default(variable: str) -> str:
    if variable in _DEFAULTS:
        return _DEFAULTS[variable]
    name = variable.lower()
    if name in {field.name for field in fields(Limits)}:
        return f"{getattr(USUAL_LIMITS, name):,}"
    value = _defaults().get(variable, getattr(LocalSettings, name, ""))
    if value is None:
        return "`auto`" if variable in _defaults() else ""
    text = str(value).lower() if isinstance(value, bool) else value
    return f"`{text}`" if text not in ("", ()) and isinstance(text, str | int) else ""
