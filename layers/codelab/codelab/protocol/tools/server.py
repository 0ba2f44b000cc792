"""Tools that need no IDE: the turn engine executes them."""

from codelab.protocol import limits
from codelab.protocol.tools.results import ResultForm
from codelab.protocol.tools.schema import arguments, array, integer, reply, string
from codelab.protocol.tools.tool import Example, Tool

_STATUS = string("How far it is", enum=["pending", "in_progress", "completed"])
_TEXT = string("What is done in this step", minLength=1, maxLength=limits.PLAN_CHARS)

TOOLS = (
    Tool(
        name="switch_agent",
        description="Hand the conversation over to an agent that suits the task better. It goes on at once.",
        parameters=arguments(
            {
                "agent_type": string("The agent to hand over to"),
                "reason": string("Why, in one sentence for the user", maxLength=500),
            }
        ),
        result=ResultForm(reply({"agent": string("Who answers from here on")})),
        server_side=True,
        examples=(Example({"agent_type": "coder", "reason": "The plan is ready to be written"}, {"agent": "coder"}),),
    ),
    Tool(
        name="update_plan",
        description="Show the user the plan of a task of several steps: always all of it, again when a step is done.",
        parameters=arguments(
            {
                "items": array(
                    arguments({"text": _TEXT, "status": _STATUS}),
                    "The steps in order; an empty list takes the plan away",
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
        description="Read on in the result of a call of this session, where characters of it were cut out.",
        parameters=arguments(
            {"call_id": string("The call, as the note in its result names it", minLength=1, maxLength=limits.ID_CHARS)},
            {
                "offset": integer("The first character to read, from 0", minimum=0),
                "limit": integer("How many characters to read; 8,000 are the most, and the default", minimum=1),
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
