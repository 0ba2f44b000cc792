"""The tools that ask the user."""

import asyncio
from typing import Any

from codelab_client.tools import limits, patches
from codelab_client.tools.changes import encoded
from codelab_client.tools.dialogue import Dialogue
from codelab_client.tools.expectations import Expectations, view_of
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.handlers import Arguments, Handlers, simple
from codelab_client.tools.workspace import Workspace


def question_handlers(dialogue: Dialogue, workspace: Workspace, expectations: Expectations) -> Handlers:
    """The handlers over a dialogue. expectations: are told what the user has reviewed."""

    async def apply_patch_review(arguments: Arguments) -> dict[str, Any]:
        diff = arguments["diff"]
        encoded(diff, "diff", limits.DIFF_BYTES)
        files = await asyncio.to_thread(patches.parse, diff)
        total = patches.chunks(files)
        view = await view_of(workspace, "apply_patch", {"diff": diff})
        answer = await dialogue.review(arguments.get("message", ""), diff, total)
        numbers = sorted({number for number in answer or () if 1 <= number <= total})
        filtered = patches.only(files, numbers)
        expectations.note_review(filtered, view)
        return {
            "action": "apply" if numbers else "cancel",
            "filtered_diff": filtered,
            "chunks_selected": numbers,
            "chunks_total": total,
        }

    async def prompt_user(arguments: Arguments) -> dict[str, Any]:
        action = await dialogue.choose(arguments["message"], arguments["actions"])
        if action is None:
            raise ToolFailure("EXECUTION_FAILED", "The user closed the question")
        return {"action": action}

    return {"apply_patch_review": simple(apply_patch_review), "prompt_user": simple(prompt_user)}
