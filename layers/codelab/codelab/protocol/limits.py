"""Sizes and counts that clients must know; where they come from is said beside each."""

#: Characters of a `user_message` (Tools Specification, "Ограничения MVP").
USER_MESSAGE_CHARS = 10_000
#: Characters of a path (Tools Specification).
PATH_CHARS = 255
#: Bytes of a file that read_file and write_file take (Tools Specification).
FILE_BYTES = 1_000_000
#: Bytes of a diff or a patch (Tools Specification).
DIFF_BYTES = 5_000_000
#: Bytes of a whole frame posted inline; API Gateway refuses 128 KB.
INLINE_FRAME_BYTES = 120_000
#: Characters of one streamed frame: twice in it (`token`, `content`) and at worst six bytes each.
BATCH_CHARS = 10_000
#: Bytes of a frame that is sent by reference, and of the arguments of a call (Tools Specification, "frame").
PAYLOAD_BYTES = 10_000_000
#: Bytes of one content (arguments, a result) that an item keeps itself; what is larger is an object in S3. So small,
#: because DynamoDB takes 400 KB an item and 4 MB a transaction, and one transaction may settle all calls of an answer,
#: each with its arguments, their edit, a result, its tool and what the model sees of it.
CONTENT_BYTES = 32_000
#: Bytes of the text of one message in the history, and of all arguments of its calls; DynamoDB keeps 400 KB an item.
MESSAGE_BYTES = 200_000
MESSAGE_CALLS_BYTES = 150_000
#: Files of a session's context, bytes of one of them, and of all together.
CONTEXT_FILES = 20
CONTEXT_FILE_BYTES = 300_000
CONTEXT_BYTES = 2_000_000
#: Tool calls of one answer, open calls of no turn, messages waiting for their turn, connections of a session.
CALLS_PER_STEP = 16
SIDE_CALLS = 16
INBOX = 20
CONNECTIONS_PER_SESSION = 8
#: Frames that one `resume` replays; a client that is further behind asks again.
REPLAY_FRAMES = 500
#: Items of a plan, and characters of one.
PLAN_ITEMS = 30
PLAN_CHARS = 300
#: Remembered approvals of one session, and of one user for all sessions.
RULES = 50
#: Characters of a call id or of a client's message id that the server takes.
ID_CHARS = 128
#: Bytes of what the creator of a session says of it.
METADATA_BYTES = 16_000
#: Tools of a client's own, and the bytes of all their declarations: they are a part of every question to the model.
DECLARED_TOOLS = 32
DECLARED_BYTES = 32_000
