"""A session's settings as ACP's config options and modes. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from codelab_client.acp.params import invalid
from codelab_client.safe_text import safe_line
from codelab_client.session import Session

_AUTONOMY = (
    ("manual", "Ask for everything", "Only reading runs without asking"),
    ("balanced", "Ask for changes", "Changes and commands ask"),
    ("autonomous", "Ask for commands", "Changes run without asking; commands and protected files ask"),
)
_DEFAULT_MODEL = "default"


@dataclass
class Settings:
    """What can be chosen. agents and models: {"name", "description"}, as the server lists them."""

    agents: Sequence[dict[str, Any]] = ()
    models: Sequence[dict[str, Any]] = field(default_factory=list)

    def options(self, session: Session) -> list[dict[str, Any]]:
        """`configOptions`: the most important first."""
        autonomy = _setting(session, "autonomy", "balanced")
        levels = [{"value": level, "name": name, "description": description} for level, name, description in _AUTONOMY]
        found = [_select("agent", "Agent", "mode", session.agent, _choices(self.agents, session.agent))]
        if self.models:
            model = _setting(session, "model", _DEFAULT_MODEL)
            found.append(_select("model", "Model", "model", model, _choices(self.models, model)))
        return [*found, _select("autonomy", "Approvals", "_autonomy", autonomy, levels)]

    def modes(self, session: Session) -> dict[str, Any]:
        """`modes`: the agents, for editors that do not know config options."""
        agents = _choices(self.agents, session.agent)
        listed = [{"id": one["value"], **{key: one[key] for key in one if key != "value"}} for one in agents]
        return {"currentModeId": session.agent, "availableModes": listed}

    async def choose(self, session: Session, option_id: str, value: Any) -> None:
        """Change a setting. Raises RpcError INVALID_PARAMS for what is not offered, and Refused."""
        option = next((one for one in self.options(session) if one["id"] == option_id), None)
        if option is None:
            raise invalid(f"There is no config option {option_id[:100]!r}")
        if value not in [one["value"] for one in option["options"]]:
            raise invalid(f"{option_id} has no such value: {str(value)[:100]!r}")
        if option_id == "agent":
            await session.switch_agent(value)
        elif option_id == "model":
            await session.configure(model=value)
        else:
            await session.configure(autonomy=value)


def _setting(session: Session, name: str, default: str) -> str:
    found = session.info.settings.get(name) if session.info is not None else None
    return found if isinstance(found, str) and found else default


def _choices(offered: Sequence[dict[str, Any]], current: str) -> list[dict[str, Any]]:
    """The values of an option; the current one is always among them."""
    named = {one["name"]: one for one in offered if isinstance(one.get("name"), str) and one["name"]}
    if current not in named:
        named = {current: {}, **named}
    return [
        {"value": name, "name": safe_line(name), **_described(one.get("description"))} for name, one in named.items()
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
