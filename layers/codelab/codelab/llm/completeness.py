"""Whether an answer is complete. What was cut is no solution, whatever of it is valid: no call of it is executed."""

from __future__ import annotations

from codelab.llm.errors import Empty, ModelError, Refusal, Truncated
from codelab.llm.finish import finish_error, is_end, outweighs_answer, tells_of_calls
from codelab.llm.parsing import is_whole
from codelab.llm.strategies import Choice

_REASON_CHARS = 200


def finish_problem(choice: Choice, *, may_be_empty: bool = False) -> ModelError | None:
    """The error of an answer that is not complete, or not meant to be shown, by its finish reason.

    may_be_empty: without text and calls, an answer that ends properly says that there is nothing to add. Raises errors
    that outweigh even a valid answer, and that of any other answer without text and calls.
    """
    if choice.refusal:
        raise Refusal(choice.refusal)
    error = finish_error(choice.finish_reason)
    if isinstance(error, Refusal) and choice.text:
        error = Refusal(choice.text)
    if error is not None and (outweighs_answer(error) or choice.is_empty):
        raise error
    if choice.is_empty:
        if (
            may_be_empty
            and not choice.called
            and is_end(choice.finish_reason)
            and not tells_of_calls(choice.finish_reason)
        ):
            return None
        raise Empty("the model finished without an answer")
    if error is not None or choice.mode.strategy != "calls":
        return error
    reason = str(choice.finish_reason)[:_REASON_CHARS]
    if choice.calls and not is_end(choice.finish_reason):
        return Truncated(f"the finish reason {reason!r} is not known to end an answer")
    if tells_of_calls(choice.finish_reason) and not choice.calls:
        return Truncated(f"the finish reason {reason!r} tells of calls, and there are none")
    return None


def shows_its_end(choice: Choice) -> bool:
    """Whether a valid answer shows by itself that nothing of it is missing.

    One JSON document does. A text does not, nor do native calls: another one might have followed.
    """
    return choice.mode.strategy != "calls" and is_whole(choice.text)
