"""Tools for patches and questions to the user (Tools Specification, "apply_patch" and "User Interaction")."""

from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode
from codelab.protocol.tools.results import ResultForm
from codelab.protocol.tools.schema import DIFF, PATH, arguments, array, done, integer, reply, string
from codelab.protocol.tools.tool import Example, Tool

_PLACES = (ErrorCode.PERMISSION_DENIED, ErrorCode.INVALID_PATH, ErrorCode.PATH_OUTSIDE_WORKSPACE)

TOOLS = (
    Tool(
        name="apply_patch",
        kind="edit",
        title="Patch {diff}",
        description="Apply a unified diff to the working tree, completely or not at all.",
        parameters=arguments({"diff": DIFF}),
        result=done(files_modified=array(PATH, "Files that were changed")),
        risk="write",
        approval=True,
        diffs=("diff",),
        byte_limits={"diff": limits.DIFF_BYTES},
        errors=(ErrorCode.PATCH_APPLY_FAILED, ErrorCode.GIT_NOT_INITIALIZED, ErrorCode.FILE_NOT_FOUND, *_PLACES),
        platforms="Needs a clean working tree. Names are relative to the workspace: if that is a subdirectory of the "
        "repository, use `git -C REPOSITORY apply --directory=SUBDIRECTORY`.",
        examples=(
            Example(
                {"diff": "--- a/src/auth.js\n+++ b/src/auth.js\n@@ -1 +1 @@\n-old\n+new\n"},
                {"success": True, "files_modified": ["src/auth.js"]},
            ),
        ),
    ),
    Tool(
        name="apply_patch_review",
        title="Review a patch of {diff}",
        description="Let the user choose which chunks of a diff to apply. Does not apply anything.",
        parameters=arguments({"diff": DIFF}, {"message": string("The question to the user")}),
        result=ResultForm(
            reply(
                {"action": string("apply or cancel")},
                {
                    "filtered_diff": string("The diff with only the chosen chunks"),
                    "chunks_selected": array({"type": "integer"}, "The chosen chunks, counted from 1"),
                    "chunks_total": integer("The number of chunks", minimum=0),
                },
            ),
            names={"filtered_diff": ("diff",)},
            bare="action",
        ),
        waits_for_human=True,
        diffs=("diff",),
        byte_limits={"diff": limits.DIFF_BYTES},
        result_byte_limits={"filtered_diff": limits.DIFF_BYTES},
        errors=_PLACES,
        platforms="An IDE without a patch view may show the diff as text and let the user apply or cancel all of it.",
        examples=(
            Example(
                {"diff": "diff --git...", "message": "Review changes to authentication module"},
                {
                    "filtered_diff": "diff --git... (only selected chunks)",
                    "action": "apply",
                    "chunks_selected": [1, 3, 4],
                    "chunks_total": 5,
                },
            ),
        ),
    ),
    Tool(
        name="prompt_user",
        title="Ask: {message}",
        description="Ask the user to choose one of several actions.",
        parameters=arguments(
            {
                "message": string("The question to the user", minLength=1),
                "actions": array({"type": "string", "minLength": 1}, "The choices", minItems=1),
            }
        ),
        result=ResultForm(
            reply({"action": string("The user's choice")}),
            names={"action": ("choice", "answer", "selected")},
            bare="action",
        ),
        waits_for_human=True,
        platforms="Shows the actions as written. If the user closes the dialog, the result is an error.",
        examples=(
            Example(
                {
                    "message": "The changes will modify 5 files. Do you want to continue?",
                    "actions": ["approve", "deny", "review"],
                },
                {"action": "approve"},
            ),
        ),
    ),
)
