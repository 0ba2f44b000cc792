"""The transport over the openai SDK, which takes seconds to import: every process of a test run imports these tests."""

from typing import Any


def sdk_transport(**options: Any) -> Any:
    """A new `SdkTransport`."""
    from codelab.llm.client.openai_sdk import SdkTransport

    return SdkTransport(**options)
