"""The hand-written server, with LiteLLM's library in place of the openai SDK."""

from collections.abc import AsyncIterator

import litellm

from benchmarks.peers.by_hand import Ask, main


def litellm_library(model_url: str) -> Ask:
    async def ask(messages: list[dict[str, str]]) -> AsyncIterator[str]:
        stream = await litellm.acompletion(
            model="openai/instant", api_base=model_url, api_key="bench", messages=messages, stream=True
        )
        async for chunk in stream:
            if chunk.choices and (piece := chunk.choices[0].delta.content):
                yield piece

    return ask


if __name__ == "__main__":
    main(litellm_library)
