"""Patches, and what the user is asked (Tools Specification, "apply_patch" and "User Interaction")."""

from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode
from codelab.protocol.tools.results import ResultForm
from codelab.protocol.tools.schema import DIFF, PATH, arguments, array, done, integer, reply, string
from codelab.protocol.tools.tool import Example, Tool

_PLACES = (ErrorCode.PERMISSION_DENIED, ErrorCode.INVALID_PATH, ErrorCode.PATH_OUTSIDE_WORKSPACE)

TOOLS = (
    Tool(
        name="apply_patch",
        description="Apply a unified diff to the working tree, all of it or nothing.",
        parameters=arguments({"diff": DIFF}),
        result=done(files_modified=array(PATH, "Files that were changed")),
        risk="write",
        approval=True,
        diffs=("diff",),
        byte_limits={"diff": limits.DIFF_BYTES},
        errors=(ErrorCode.PATCH_APPLY_FAILED, ErrorCode.GIT_NOT_INITIALIZED, ErrorCode.FILE_NOT_FOUND, *_PLACES),
        platforms="Needs a clean working tree. Names are relative to the workspace: where it is a subdirectory of the "
        "repository, `git apply` has to be told (`git -C REPOSITORY apply --directory=SUBDIRECTORY`).",
        examples=(
            Example(
                {"diff": "--- a/src/auth.js\n+++ b/src/auth.js\n@@ -1 +1 @@\n-old\n+new\n"},
                {"success": True, "files_modified": ["src/auth.js"]},
            ),
        ),
    ),
    Tool(
        name="apply_patch_review",
        description="Let the user choose which chunks of a diff to apply. Nothing is applied by it.",
        parameters=arguments({"diff": DIFF}, {"message": string("What the user is asked")}),
        result=ResultForm(
            reply(
                {"action": string("apply or cancel")},
                {
                    "filtered_diff": string("The diff of the chunks that were chosen"),
                    "chunks_selected": array({"type": "integer"}, "The chunks that were chosen, from 1"),
                    "chunks_total": integer("How many there were", minimum=0),
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
        platforms="An IDE without a patch view may show the diff as text and answer with all of it or with cancel.",
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
        description="Ask the user to choose one of several actions.",
        parameters=arguments(
            {
                "message": string("What the user is asked", minLength=1),
                "actions": array({"type": "string", "minLength": 1}, "What can be chosen", minItems=1),
            }
        ),
        result=ResultForm(
            reply({"action": string("What was chosen")}),
            names={"action": ("choice", "answer", "selected")},
            bare="action",
        ),
        waits_for_human=True,
        platforms="Actions are shown as they are written; a closed dialog is an error.",
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
