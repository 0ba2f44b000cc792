"""Tools that the turn engine executes itself, without the IDE."""

from codelab.protocol import limits
from codelab.protocol.tools.results import ResultForm
from codelab.protocol.tools.schema import arguments, array, integer, reply, string
from codelab.protocol.tools.tool import Example, Tool

_STATUS = string("The step's status", enum=["pending", "in_progress", "completed"])
_TEXT = string("What to do in this step", minLength=1, maxLength=limits.PLAN_CHARS)

TOOLS = (
    Tool(
        name="switch_agent",
        kind="think",
        description="Hand the conversation over to an agent that suits the task better. It continues at once.",
        parameters=arguments(
            {
                "agent_type": string("The agent to hand over to"),
                "reason": string("Why, in one sentence for the user", maxLength=500),
            }
        ),
        result=ResultForm(reply({"agent": string("The new agent")})),
        server_side=True,
        examples=(Example({"agent_type": "coder", "reason": "The plan is ready to be written"}, {"agent": "coder"}),),
    ),
    Tool(
        name="update_plan",
        kind="think",
        description="Show the user the plan of a multi-step task. Always send all steps, again after each step.",
        parameters=arguments(
            {
                "items": array(
                    arguments({"text": _TEXT, "status": _STATUS}),
                    "The steps in order; an empty list removes the plan",
                    maxItems=limits.PLAN_ITEMS,
                )
            }
        ),
        result=ResultForm(reply({"status": string("shown")})),
        server_side=True,
        examples=(
            Example(
                {
                    "items": [
                        {"text": "Read the parser", "status": "completed"},
                        {"text": "Fix the test", "status": "pending"},
                    ]
                },
                {"status": "shown"},
            ),
        ),
    ),
    Tool(
        name="read_result",
        kind="read",
        description="Read more of a call's result in this session, where characters of it were cut out.",
        parameters=arguments(
            {"call_id": string("The call_id in the note in its result", minLength=1, maxLength=limits.ID_CHARS)},
            {
                "offset": integer("The first character to read, from 0", minimum=0),
                "limit": integer("How many characters to read; at most 8,000, the default", minimum=1),
            },
        ),
        result=ResultForm(
            reply(
                {
                    "content": string("That part of the result"),
                    "offset": integer("Where it begins"),
                    "total": integer("How many characters the whole result has"),
                }
            )
        ),
        server_side=True,
        examples=(
            Example(
                {"call_id": "call_7c1d", "offset": 8000, "limit": 40},
                {"content": "the rest of a line\\nand the next line", "offset": 8000, "total": 1000026},
            ),
        ),
    ),
)
