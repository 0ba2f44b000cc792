"""Limits that clients must know, each with its source."""

#: Characters of a `user_message` (Tools Specification, "Ограничения MVP").
USER_MESSAGE_CHARS = 10_000
#: The same for a connection with extensions.
LONG_MESSAGE_CHARS = 100_000
#: Attachments of a message, bytes of an image, and characters of an attached text.
ATTACHMENTS = 8
IMAGE_BYTES = 5_000_000
ATTACHED_CHARS = 200_000
#: Characters of a path (Tools Specification).
PATH_CHARS = 255
#: The same where the client has said that it runs on Linux or macOS, whose paths have less than 4,096 bytes.
LONG_PATH_CHARS = 4_095
#: Bytes of a file in read_file and write_file (Tools Specification).
FILE_BYTES = 1_000_000
#: Edits of one edit_file.
EDITS = 100
#: Bytes of a diff or a patch (Tools Specification).
DIFF_BYTES = 5_000_000
#: Bytes of a whole frame posted inline; API Gateway refuses 128 KB.
INLINE_FRAME_BYTES = 120_000
#: Characters of one streamed frame; a frame contains them twice (`token`, `content`), at up to six bytes each.
BATCH_CHARS = 10_000
#: Bytes of a frame sent by reference, and of the arguments of a call (Tools Specification, "frame").
PAYLOAD_BYTES = 10_000_000
#: Bytes of one content (arguments, a result) in an item; a larger one is stored in S3. DynamoDB takes
#: 400 KB per item and 4 MB per transaction, and one transaction may settle all calls of an answer, each with its
#: arguments, their edit, a result, its tool and the part the model sees.
CONTENT_BYTES = 32_000
#: Bytes of the text of one message in the history, and of all arguments of its calls: DynamoDB takes 400 KB per item.
MESSAGE_BYTES = 200_000
MESSAGE_CALLS_BYTES = 150_000
#: Files of a session's context, bytes of one of them, and of all together.
CONTEXT_FILES = 20
CONTEXT_FILE_BYTES = 300_000
CONTEXT_BYTES = 2_000_000
#: Tool calls per answer, open calls outside turns, queued messages, connections per session.
CALLS_PER_STEP = 16
OUT_OF_TURN_CALLS = 16
#: Subagents that work side by side, and the calls that each can make at once: a decision about all of them fits into
#: one transaction.
CHILDREN = 4
#: The subagents of a turn.
CHILDREN_PER_TURN = 16
CHILD_CALLS = 4
#: The steps and tokens of a subagent.
CHILD_STEPS = 30
CHILD_TOKENS = 500_000
#: Characters of a subagent's task, and the files that it names.
TASK_CHARS = 8_000
TASK_FILES = 20
#: Characters of a subagent's task that clients are shown.
SUBAGENT_TASK_CHARS = 200
#: Agents that a client may declare, bytes of the prompt of one, and of all declarations: an item of DynamoDB has those
#: of two clients beside the tools of all (`own_tools`).
DECLARED_AGENTS = 16
AGENT_PROMPT_BYTES = 8_000
AGENTS_BYTES = 32_000
#: Bytes, places and levels of the schema of a subagent's result: every step of the subagent has it.
RESULT_SCHEMA_BYTES = 8_000
RESULT_SCHEMA_PLACES = 500
RESULT_SCHEMA_DEPTH = 20
INBOX = 20
CONNECTIONS_PER_SESSION = 8
#: Frames that one `resume` replays; a client that is further behind sends `resume` again.
REPLAY_FRAMES = 500
#: Items of a plan, and characters of one item.
PLAN_ITEMS = 30
PLAN_CHARS = 300
#: Characters of the explanation of a proposed plan.
PLAN_EXPLANATION_CHARS = 6_000
#: Remembered rules per session, and per user for all sessions.
RULES = 50
#: Characters of a call id or a client's message id.
ID_CHARS = 128
#: Bytes of a session's `metadata`.
METADATA_BYTES = 16_000
#: Files with instructions of the project, and characters of one; together they fit an item of DynamoDB.
INSTRUCTIONS = 8
INSTRUCTION_CHARS = 32_000
INSTRUCTIONS_BYTES = 128_000
#: What a client tells of its environment: characters of a line, and of the tree of files.
ENVIRONMENT_LINE_CHARS, ENVIRONMENT_TREE_CHARS = 300, 6_000
#: Tools a client may declare, and the bytes of all their declarations: every Request to the model contains them.
DECLARED_TOOLS = 32
DECLARED_BYTES = 32_000
#: Names in `tools_supported`; a newer client may name tools that this server does not know.
TOOLS_SUPPORTED = 100
