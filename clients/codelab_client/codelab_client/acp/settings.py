"""A session's settings as ACP's config options and modes. No I/O."""

from collections.abc import Sequence
from typing import Any

from codelab_client.acp.params import invalid
from codelab_client.safe_text import safe_line
from codelab_client.session import Session
from codelab_client.session.session import Scope

#: What the agent may do; see docs/protocol.md, "Modes".
_MODES = (
    ("ask", "Ask", "The agent only reads"),
    ("plan", "Plan", "The agent reads, and proposes a plan before it changes anything"),
    ("manual", "Manual", "Only reading runs without asking"),
    ("code", "Code", "Changes and commands ask"),
    ("autonomous", "Autonomous", "Changes run without asking; commands and protected files ask"),
)


#: The id of the option that says where "always" counts: editors have one button for it.
REMEMBER = "remember"
_SCOPES = (
    ("session", "In this session", "“Always” makes a rule for this session"),
    ("user", "In all my sessions", "“Always” makes a rule for all sessions, in every folder"),
)


def options(session: Session, remember: Scope = "session", *, booleans: bool = False) -> list[dict[str, Any]]:
    """`configOptions`: the most important first. remember: where "always" counts. booleans: the editor has switches."""
    info = session.info
    server_info = info.frame if info is not None else {}
    mode_choices = [{"value": value, "name": name, "description": description} for value, name, description in _MODES]
    config_options = [
        _select("mode", "Mode", "mode", session.mode, mode_choices),
        _select("agent", "Agent", "_agent", session.agent, _choices(server_info.get("agents"), session.agent)),
    ]
    if isinstance(model := server_info.get("model"), str) and model:
        config_options.append(_select("model", "Model", "model", model, _choices(server_info.get("models"), model)))
    settings = info.settings if info is not None else {}
    if levels := _thinking(session):
        thinking = _text(settings.get("thinking"), "default")
        config_options.append(_select("thinking", "Thinking", "thought_level", thinking, _choices(levels, thinking)))
    if booleans:
        return [*config_options, _switch(REMEMBER, "Always: in all my sessions", "_remember", value=remember == "user")]
    scopes = [{"value": value, "name": name, "description": description} for value, name, description in _SCOPES]
    return [
        *config_options,
        _select(REMEMBER, "Always", "_remember", remember, scopes),
    ]


def scope(value: Any) -> Scope:
    """Where "always" counts: by its name, or whether in all sessions. Raises RpcError INVALID_PARAMS."""
    if isinstance(value, bool):
        return "user" if value else "session"
    if value not in ("session", "user"):
        raise invalid(f"{REMEMBER} has no such value: {str(value)[:100]!r}")
    return "session" if value == "session" else "user"


def modes(session: Session) -> dict[str, Any]:
    """`modes`: the same as the option `mode`, for editors that do not know config options."""
    available_modes = [{"id": value, "name": name, "description": description} for value, name, description in _MODES]
    return {"currentModeId": session.mode, "availableModes": available_modes}


def context_tokens(session: Session) -> int | None:
    """How many tokens of a session the model gets at most."""
    size = _model(session).get("context_tokens")
    return size if type(size) is int and size > 0 else None


async def choose(session: Session, option_id: str, value: Any) -> None:
    """Change a setting. Raises RpcError INVALID_PARAMS for what is not offered, and SessionError."""
    if option_id == REMEMBER:
        return
    option = next((candidate for candidate in options(session) if candidate["id"] == option_id), None)
    if option is None:
        raise invalid(f"There is no config option {option_id[:100]!r}")
    if value not in [candidate["value"] for candidate in option["options"]]:
        raise invalid(f"{option_id} has no such value: {str(value)[:100]!r}")
    if value == option["currentValue"] and option_id != "mode":
        return  # a mode that another window chose becomes this user's choice
    if option_id == "agent":
        await session.switch_agent(value)
    else:
        await session.configure(**{option_id: value})


def _model(session: Session) -> dict[str, Any]:
    """What the server says of the session's model."""
    server_info = session.info.frame if session.info is not None else {}
    return next((model for model in _named(server_info.get("models")) if model["name"] == server_info.get("model")), {})


def _thinking(session: Session) -> list[dict[str, Any]]:
    """How much the session's model can be told to think."""
    levels = _model(session).get("thinking")
    return [{"name": level} for level in levels if isinstance(level, str)] if isinstance(levels, list) else []


def _text(value: Any, default: str) -> str:
    return value if isinstance(value, str) and value else default


def _named(value: Any) -> list[dict[str, Any]]:
    items = value if isinstance(value, list) else []
    return [item for item in items if isinstance(item, dict) and isinstance(item.get("name"), str) and item["name"]]


def _choices(value: Any, current: str) -> list[dict[str, Any]]:
    """The values of an option; the current one is always among them."""
    by_name = {item["name"]: item for item in _named(value)}
    if current not in by_name:
        by_name = {current: {}, **by_name}
    return [
        {"value": name, "name": safe_line(name), **_described(item.get("description"))}
        for name, item in by_name.items()
    ]


def _described(description: Any) -> dict[str, str]:
    return {"description": safe_line(description, 500)} if isinstance(description, str) and description else {}


def _select(option_id: str, name: str, category: str, value: str, choices: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": option_id,
        "name": name,
        "category": category,
        "type": "select",
        "currentValue": value,
        "options": list(choices),
    }


def _switch(option_id: str, name: str, category: str, *, value: bool) -> dict[str, Any]:
    return {"id": option_id, "name": name, "category": category, "type": "boolean", "currentValue": value}
