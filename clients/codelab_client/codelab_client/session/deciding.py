"""The user's decisions about calls: recorded here before the server gets them, or answered here if they wait here."""

from collections.abc import Mapping
from typing import Any

from codelab_client.session.decisions import Decisions
from codelab_client.session.errors import Refused
from codelab_client.session.gate import Gate
from codelab_client.session.open_calls import OpenCalls

Remember = Mapping[str, str] | None


class Deciding:
    """Takes the decisions of one session. gate: has the calls that were decided elsewhere; None for a viewer."""

    def __init__(self, decisions: Decisions, gate: Gate | None, open_calls: OpenCalls) -> None:
        self._decisions, self._gate, self._open_calls = decisions, gate, open_calls

    async def approve(
        self,
        call_id: str,
        tool: str | None,
        arguments: Mapping[str, Any] | None,
        remember: Remember,
        mode: str | None = None,
    ) -> None:
        """tool, arguments: those that the user saw; None: the newest ones that came. mode: in which a plan is done.

        Raises Refused if another call waits here under the id than the one that the user saw.
        """
        if self._gate is not None and not self._gate.asks_about_this(call_id, tool, arguments):
            raise Refused("INVALID_CALL_ID", "Another call has come under this id: nothing was decided")
        if self._answered_here(call_id, runs=True):
            return
        call = self._open_calls.known.get(call_id)
        if call is not None and (shown_arguments := call.arguments if arguments is None else arguments) is not None:
            self._record(call_id, call.tool_name if tool is None else tool, shown_arguments, remember)
        await self._send(call_id, {"decision": "approve", **self._mode(call_id, mode)}, remember)

    async def edit(self, call_id: str, arguments: Mapping[str, Any], mode: str | None = None) -> None:
        """Raises Refused for a call that was approved elsewhere."""
        if self._gate is not None and self._gate.asks_about(call_id):
            raise Refused("INVALID_CALL_ID", "The call was approved elsewhere, so it cannot be changed any more")
        call = self._open_calls.known.get(call_id)
        if call is not None:
            self._record(call_id, call.tool_name, arguments, None)
        await self._send(
            call_id, {"decision": "edit", "modified_arguments": dict(arguments), **self._mode(call_id, mode)}, None
        )

    async def reject(self, call_id: str, feedback: str, remember: Remember) -> None:
        """A call that waits here fails here; the server rejects any other."""
        if self._answered_here(call_id, runs=False, feedback=feedback):
            return
        self._decisions.rejected(call_id)
        await self._send(call_id, {"decision": "reject", "feedback": feedback}, remember)

    def _answered_here(self, call_id: str, *, runs: bool, feedback: str = "") -> bool:
        return self._gate is not None and self._gate.answer(call_id, runs=runs, feedback=feedback)

    def _record(self, call_id: str, tool: str, arguments: Mapping[str, Any], remember: Remember) -> None:
        self._decisions.approved(call_id, tool, arguments)
        if remember is not None:
            self._decisions.remembered(call_id, tool, arguments, remember)

    def _mode(self, call_id: str, mode: str | None) -> dict[str, str]:
        if mode is None:
            return {}
        self._decisions.accepted_plan(call_id, mode)
        return {"mode": mode}

    async def _send(self, call_id: str, fields: Mapping[str, Any], remember: Remember) -> None:
        remember_field = {} if remember is None else {"remember": dict(remember)}
        await self._open_calls.decide({"type": "hitl_decision", "call_id": call_id, **fields, **remember_field})
