"""Turns the model's solution into an Answer, and a Request's failure into a protocol error."""

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any

from codelab.agents import Agent, agents, subagents
from codelab.llm.call_schema import with_tool
from codelab.llm.errors import ContextOverflow, RequestError, TransportError
from codelab.llm.failures import masked
from codelab.llm.outcome import Result
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.modes import Mode
from codelab.protocol.tools import ExecutorTools, Tool
from codelab.sessions.items import CallRequest
from codelab.turns import titles
from codelab.turns.steps import ModelAnswer

_OVERFLOW = (
    "The conversation is larger than the model's context, even with half of it left out. Compact it, begin a new"
    " session, or choose another model. If this happens again, the operator must tell the server the model's window"
    " (LLM_CAPABILITIES)"
)

#: The text, then the calls: the model generates the keys in this order, so the text streams first.
MESSAGE, CALLS = "message", "calls"
#: After them, in the answer of a child that was asked for an object.
RESULT = "result"
_RESULT_WORDS = "Only without calls, and then always: what the task asks for. Who delegated it reads this alone."
#: The most characters of a provider's error that a user reads.
_QUOTED_CHARS = 500


#: The answer's schema without tools; each tool adds a branch to `calls`.
ANSWER = {
    "type": "object",
    "properties": {
        MESSAGE: {"type": "string", "description": "What the user reads, in the user's language; may be empty"},
        CALLS: {
            "type": "array",
            "description": "Tool calls to make now; empty when the answer is complete",
            "items": {"anyOf": []},
        },
    },
    "required": [MESSAGE, CALLS],
    "additionalProperties": False,
}


def answer_schema(agent: Agent, *, has_title: bool, result_schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The schema of the agent's answers: the text, calls of its tools and, if `has_title`, the session's title.

    result_schema: of the object that the last answer has.
    """
    known_tools: Collection[str] = ()
    if agent.only is None:
        schema = _schema(agent.name, has_title, agent.supported, agent.mode, delegated=agent.delegated)
        known_tools = _named(agent.name, delegated=agent.delegated).tools
    else:
        schema = titles.with_title(ANSWER) if has_title else ANSWER
    for tool in agent.tools.values():
        if tool.name not in known_tools or tool.untrusted_description:  # of a client, or with its words
            schema = _with(tool, schema)
    return schema if result_schema is None else _with_result(schema, result_schema)


def _with_result(schema: dict[str, Any], result_schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of answers of which those without calls have a result."""
    words = f"{_RESULT_WORDS} {result_schema.get('description', '')}".rstrip()
    return {
        **schema,
        "properties": {**schema["properties"], RESULT: {**result_schema, "description": words}},
        # In words, because a model that forgets the result is told just this.
        "not": {
            "description": "neither calls nor a result",
            "properties": {CALLS: {"maxItems": 0}, RESULT: False},
        },
    }


@lru_cache(maxsize=64)
def _schema(
    name: str, has_title: bool, tool_names: frozenset[str] | None, mode: Mode, *, delegated: bool
) -> dict[str, Any]:
    """As `answer_schema`, without clients' own tools."""
    schema = titles.with_title(ANSWER) if has_title else ANSWER
    agent = _named(name, delegated=delegated)
    for tool in agent.for_executor(ExecutorTools(supported=tool_names), mode=mode).tools.values():
        schema = _with(tool, schema)
    return schema


def _named(name: str, *, delegated: bool) -> Agent:
    return (subagents() if delegated else agents())[name]


def _with(tool: Tool, schema: dict[str, Any]) -> dict[str, Any]:
    return with_tool(schema, tool.name, tool.offered_parameters, tool.description)


def tool_messages(agent: Agent) -> list[dict[str, Any]]:
    """The agent's tools as messages of a Request."""
    return [
        {
            "role": "system",
            "content": {
                "type": "tool",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.offered_parameters,
            },
        }
        for tool in agent.tools.values()
    ]


def answer_of(
    result: Result,
    agent: Agent,
    usage: dict[str, int],
    streamed_text: str,
    new_id: Callable[[], str],
    *,
    follows_results: bool,
) -> ModelAnswer:
    """The result's solution with an id for each call. The text is the streamed one, because the user has seen it.

    Raises ProtocolError LLM_ERROR for an answer with neither text nor calls, unless it has a result, or follows results
    of calls: then the model has nothing to add.
    """
    solution = result.solution
    if not (follows_results or streamed_text or solution[MESSAGE].strip() or solution[CALLS] or RESULT in solution):
        raise ProtocolError(
            ErrorCode.LLM_ERROR, "The model's answer was empty", details={"reason": "empty"}, retryable=True
        )
    calls = []
    for item in solution[CALLS]:
        arguments = {name: value for name, value in item.items() if name != "_tool"}
        calls.append(CallRequest(call_id="call_" + new_id(), tool=item["_tool"], arguments=arguments))
    text = streamed_text or solution[MESSAGE]
    title = titles.title_of(solution)
    return ModelAnswer(
        text,
        tuple(calls),
        agent,
        agent.tools,
        usage,
        title=title,
        has_text_call=result.has_text_call,
        result=solution.get(RESULT),
    )


def failure(error: RequestError, request_id: str, *, quotes_provider: bool = False) -> ProtocolError:
    """The error LLM_ERROR, retryable if the same message may work later; CONTEXT_TOO_LARGE if half was too much, too.

    `details` has the kind of failure (`reason`), the provider's `status` if any, and the `request_id` of the log entry.
    `quotes_provider`: the message ends with the provider's own words, for a user who is also the operator.
    """
    details: dict[str, Any] = {"reason": error.code, "request_id": request_id}
    if isinstance(error, TransportError):
        retryable = error.retryable
        if error.status is not None:
            details["status"] = error.status
    else:
        retryable = error.code in ("truncated", "empty", "invalid_json", "invalid_answer", "deadline")
    if isinstance(error, ContextOverflow):
        return ProtocolError(ErrorCode.CONTEXT_TOO_LARGE, _OVERFLOW, details=details, retryable=False)
    message = f"The model failed: {error.public_message}"
    if quotes_provider and error.provider_words:
        message += f". Its provider says: {masked(error.provider_words)[:_QUOTED_CHARS]}"
    return ProtocolError(ErrorCode.LLM_ERROR, message, details=details, retryable=retryable)
