"""The schema of an agent's answers, which is made once per agent."""

from codelab.agents import Agent, agents
from codelab.llm.config import RequestConfig
from codelab.llm.content import BUILT_IN
from codelab.llm.pipeline import prepare
from codelab.protocol.tools import ExecutorTools, Tool
from codelab.sessions.items import ToolsItem
from codelab.turns import titles
from codelab.turns.model_answers import ANSWER, answer_schema, tool_messages
from codelab.turns.own_tools import tools_of_connection

from tests.cases import cases


def own_tool(name: str, path: str) -> Tool:
    parameters = {"type": "object", "properties": {path: {"type": "string"}}, "required": [path]}
    declaration = {"name": name, "description": "A tool.", "parameters": parameters, "read_only": True}
    (tool,) = tools_of_connection(ToolsItem({"c1": [declaration]}), "c1").own
    return tool


def with_tools(agent: Agent, *, titled: bool) -> object:
    """What a Request makes of the agent's tools if they are messages."""
    schema = titles.with_title(ANSWER) if titled else ANSWER
    return prepare(RequestConfig("m"), schema, [*tool_messages(agent), {"role": "user", "content": "x"}], BUILT_IN)[1]


@cases("titled", [True, False])
@cases("name", agents())
def test_it_has_a_branch_per_tool(name: str, titled: bool) -> None:
    agent = agents()[name].for_executor(ExecutorTools())
    joined = agents()[name].for_executor(ExecutorTools((own_tool("ide_lint", "file"), own_tool("ide_find", "query"))))
    assert len(joined.tools) - len(agent.tools) in (0, 2)
    for each in (agent, joined, agent):
        assert answer_schema(each, has_title=titled) == with_tools(each, titled=titled)


def test_tools_of_one_client_do_not_reach_another() -> None:
    agent = agents()["universal"].for_executor(ExecutorTools())
    before = str(answer_schema(agent, has_title=False))
    first, second = (agent.for_executor(ExecutorTools((own_tool("ide_lint", path),))) for path in ("file", "folder"))
    assert "folder" in str(answer_schema(second, has_title=False)["properties"]["calls"]["items"]["anyOf"][-1])
    assert "folder" not in str(answer_schema(first, has_title=False)["properties"]["calls"]["items"]["anyOf"][-1])
    assert str(answer_schema(agent, has_title=False)) == before
