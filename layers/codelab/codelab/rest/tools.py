"""The IDE's tools, the agents, and the models."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel

from codelab.agents import agents
from codelab.config import Settings, settings
from codelab.protocol.errors import ErrorCode
from codelab.protocol.outgoing import ModelInfo
from codelab.protocol.tools import CATALOGUE, ExecutorTools, Tool
from codelab.rest.bodies import with_example
from codelab.rest.error_responses import refusals
from codelab.rest.identity import SessionName, User
from codelab.rest.routes import DirectRoute
from codelab.rest.sessions import existing
from codelab.sessions import keys
from codelab.turns import models, policy
from codelab.turns.connections import executor_for_http
from codelab.turns.own_tools import tools_of_connection
from codelab.wiring import engine

router = APIRouter(tags=["tools"], route_class=DirectRoute)

OfSession = Annotated[SessionName | None, Query(description="List the tools of this session's IDE")]


class ToolDescription(BaseModel):
    """A tool that runs in the IDE.

    `parameters` gives each argument's type and whether it is required; `input_schema` is the JSON Schema of all
    arguments. `requires_approval`: at least some calls need a human's approval.
    """

    name: str
    description: str
    parameters: dict[str, dict[str, Any]]
    requires_approval: bool
    risk: str
    input_schema: dict[str, Any]


class ToolList(BaseModel):
    """The tools that run in the IDE."""

    model_config = with_example(
        tools=[
            {
                "name": "read_file",
                "description": "Read file content",
                "parameters": {"path": {"type": "string", "required": True}},
                "requires_approval": False,
                "risk": "read",
                "input_schema": {
                    "type": "object",
                    "properties": {"path": {"type": "string"}},
                    "required": ["path"],
                },
            }
        ]
    )

    tools: list[ToolDescription]


class AgentDescription(BaseModel):
    """An agent and the tools that it may call."""

    name: str
    description: str
    tools: list[str]


class AgentList(BaseModel):
    """The agents that a session can switch to; `default` is the agent of new sessions."""

    model_config = with_example(
        agents=[
            {"name": "universal", "description": "Does everything itself", "tools": ["read_file"]},
        ],
        default="universal",
    )

    agents: list[AgentDescription]
    default: str


@router.get("/tools", responses=refusals(ErrorCode.SESSION_NOT_FOUND))
def list_tools(user: User, session_id: OfSession = None) -> ToolList:
    """The tools of the seed documents; with `session_id`, those that the session's executor executes or declared."""
    executor = ExecutorTools()
    if session_id is not None:
        register, item = engine().store.read_tools(keys.partition(user, session_id))
        executor = tools_of_connection(item, executor_for_http(existing(register), engine().clock()))
    executor_tools = (executor.offered(tool) for tool in CATALOGUE.values() if not tool.server_side)
    tools = [*(tool for tool in executor_tools if tool is not None), *executor.own]
    config = settings()
    return ToolList(tools=[_description_of(tool, config) for tool in tools])


@router.get("/agents", responses=refusals())
def list_agents(user: User) -> AgentList:
    """The agents."""
    return AgentList(
        agents=[
            AgentDescription(name=agent.name, description=agent.description, tools=list(agent.tools))
            for agent in agents().values()
        ],
        default=settings().first_agent,
    )


class ModelList(BaseModel):
    """The models that a session can choose, the default first. `thinking` lists the levels that it can be told."""

    model_config = with_example(
        models=[
            {
                "name": "gpt-4.1-mini",
                "context_tokens": 128000,
                "images": True,
                "thinking": [],
            }
        ],
        default="gpt-4.1-mini",
    )

    models: list[ModelInfo]
    default: str


@router.get("/models", responses=refusals())
def list_models(user: User) -> ModelList:
    """The models."""
    config = settings()
    return ModelList(models=models.selectable_models(config), default=config.llm_model)


def _description_of(tool: Tool, config: Settings) -> ToolDescription:
    required = tool.parameters.get("required", [])
    properties: dict[str, Any] = tool.parameters.get("properties", {})
    return ToolDescription(
        name=tool.name,
        description=tool.description if tool.declaration is None else tool.declaration["description"],
        parameters={
            name: {**(schema if isinstance(schema, dict) else {}), "required": name in required}
            for name, schema in properties.items()
        },
        requires_approval=policy.needs_approval(tool, {}, config),
        risk=tool.risk,
        input_schema=tool.parameters,
    )
