"""Tools that the turn engine executes itself, without the IDE."""

from codelab.protocol import limits
from codelab.protocol.tools.results import ResultForm
from codelab.protocol.tools.schema import arguments, array, integer, reply, string
from codelab.protocol.tools.tool import Example, Tool

#: The tool on whose calls children work.
DELEGATE = "delegate"
#: Its argument with the schema of the answer.
RESULT_SCHEMA = "result_schema"

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
        modes=frozenset({"ask", "manual", "code", "autonomous"}),
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
        name="propose_plan",
        kind="think",
        title="Plan: {steps}",
        description="Propose a plan to the user, who accepts, edits or rejects it. Nothing can be changed before the "
        "user has accepted one. Send the complete plan, again after a rejection.",
        parameters=arguments(
            {
                "steps": array(
                    _TEXT,
                    "What is to be done, in order: each step can be done and verified by itself, and names its files",
                    minItems=1,
                    maxItems=limits.PLAN_ITEMS,
                )
            },
            {
                "explanation": string(
                    "What was found, and why it is to be done so: Markdown for the user",
                    maxLength=limits.PLAN_EXPLANATION_CHARS,
                )
            },
        ),
        result=ResultForm(
            reply(
                {
                    "status": string("accepted"),
                    "mode": string("The mode in which the agent goes on"),
                    "note": string("What to do next"),
                }
            )
        ),
        always_approval=True,
        server_side=True,
        modes=frozenset({"plan"}),
        examples=(
            Example(
                {
                    "steps": ["Add a test for empty input to test/parser.py", "Return early in src/parser.py"],
                    "explanation": "`parse` reads the first character before it looks at the length.",
                },
                {
                    "status": "accepted",
                    "mode": "code",
                    "note": "Carry out the plan, and keep it up to date by update_plan",
                },
            ),
        ),
    ),
    Tool(
        name=DELEGATE,
        kind="think",
        title="Subagent {agent}: {task}",
        description="Have another agent do a part of the work. It knows nothing of this conversation, calls tools by "
        "itself, and answers once. Several work side by side if they are called at once. Use it for what needs much "
        "reading and has a short answer; do small things yourself.",
        parameters=arguments(
            {
                "agent": string("The agent that does it"),
                "task": string(
                    "What to do, what is known, and what to answer; all that it has to know",
                    minLength=1,
                    maxLength=limits.TASK_CHARS,
                ),
            },
            {
                "files": array(string("A path", minLength=1), "The files to look at first", maxItems=limits.TASK_FILES),
                RESULT_SCHEMA: {
                    "type": "object",
                    "description": "To get a JSON object in place of a text: the JSON Schema of that object",
                },
            },
        ),
        result=ResultForm(
            reply(
                {
                    "answer": {
                        "type": ["string", "object"],
                        "description": "What the subagent answers: a text, or an object by `result_schema`",
                    }
                }
            )
        ),
        paths=("files",),
        server_side=True,
        extension=True,
        examples=(
            Example(
                {"agent": "explore", "task": "Where is the version of the protocol checked? Name files and lines."},
                {"answer": "In src/handshake.py, lines 40 to 58: check_version."},
            ),
            Example(
                {
                    "agent": "explore",
                    "task": "Which versions of the protocol are accepted?",
                    "result_schema": {
                        "type": "object",
                        "properties": {"versions": {"type": "array", "items": {"type": "string"}}},
                        "required": ["versions"],
                    },
                },
                {"answer": {"versions": ["1.0", "1.1"]}},
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
