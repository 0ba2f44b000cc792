"""A client's own agents, declared in `hello` for its connection: whom the session's agent can delegate to.

A project may bring them, so their words are a stranger's. What they may do is what the agent may do that delegates to
them, or less.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from codelab.protocol import limits
from codelab.protocol.tools.declared import ToolName

#: Names that look like no other: lower case, and no letters of other alphabets.
_NAME = r"^[a-z][a-z0-9_-]{0,31}$"


def _not_too_long(prompt: str) -> str:
    size = len(prompt.encode())
    if size > limits.AGENT_PROMPT_BYTES:
        details = {"size": size, "most": limits.AGENT_PROMPT_BYTES}
        raise PydanticCustomError("size", "the prompt has {size} bytes; at most {most} are allowed", details)
    return prompt


class AgentDeclaration(BaseModel):
    """An agent that works on what another one gives it by the tool `delegate`."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, defer_build=True)

    name: Annotated[str, StringConstraints(pattern=_NAME)] = Field(
        description="What it is delegated to by: at most 32 of a-z, 0-9, `_` and `-`, and none of the server's agents."
    )
    description: Annotated[str, StringConstraints(min_length=1, max_length=500)] = Field(
        description="What it is for. The agent that delegates reads this as data."
    )
    prompt: Annotated[str, StringConstraints(min_length=1), AfterValidator(_not_too_long)] = Field(
        description="How it works, at most 8,000 bytes. It reads this as instructions of the project, below its rules."
    )
    tools: Annotated[list[ToolName], Field(max_length=limits.TOOLS_SUPPORTED)] | None = Field(
        default=None,
        description="Its tools, of those that the agent has that delegates to it; other names are ignored. Absent: all "
        "of those. None of them talks to the user or delegates.",
    )
    mode: Literal["ask", "plan"] | None = Field(
        default=None, description="It only reads, also while the session's agent acts. Absent: the session's mode."
    )
    model: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = Field(
        default=None, description="The model that answers, if `session_info.models` has it; otherwise the session's."
    )

    @model_validator(mode="before")
    @classmethod
    def null_is_absent(cls, raw: Any) -> Any:
        return {name: value for name, value in raw.items() if value is not None} if isinstance(raw, dict) else raw


AgentDeclarations = Annotated[list[AgentDeclaration], Field(max_length=limits.DECLARED_AGENTS)]
