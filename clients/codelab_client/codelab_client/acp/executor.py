"""The executor of an ACP session: the package's own, which knows which call it executes."""

from collections.abc import Sequence

from codelab_client.acp.running_call import running_call
from codelab_client.execution import OnOutput, ToolCall, ToolExecutor, ToolOutcome


class EditorExecutor:
    """See ToolExecutor."""

    def __init__(self, inner: ToolExecutor) -> None:
        self._inner = inner

    @property
    def tools_supported(self) -> Sequence[str]:
        """See ToolExecutor."""
        return self._inner.tools_supported

    async def execute(self, call: ToolCall, on_output: OnOutput) -> ToolOutcome:
        """See ToolExecutor."""
        running_call.set(call.call_id)  # of the task that executes this call only
        return await self._inner.execute(call, on_output)

    async def cancel(self, call_id: str) -> None:
        """See ToolExecutor."""
        await self._inner.cancel(call_id)

    async def aclose(self) -> None:
        """See ToolExecutor."""
        await self._inner.aclose()
