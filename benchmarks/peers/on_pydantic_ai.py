"""The hand-written server, with pydantic-ai in place of the openai SDK."""

from collections.abc import AsyncIterator

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from benchmarks.peers.by_hand import Ask, main


def pydantic_ai(model_url: str) -> Ask:
    agent = Agent(OpenAIChatModel("instant", provider=OpenAIProvider(base_url=model_url, api_key="bench")))

    async def ask(messages: list[dict[str, str]]) -> AsyncIterator[str]:
        history = [_message(**message) for message in messages[:-1]]
        async with agent.run_stream(messages[-1]["content"], message_history=history) as result:
            async for piece in result.stream_text(delta=True, debounce_by=None):
                yield piece

    return ask


def _message(role: str, content: str) -> ModelMessage:
    if role == "user":
        return ModelRequest(parts=[UserPromptPart(content=content)])
    return ModelResponse(parts=[TextPart(content=content)])


if __name__ == "__main__":
    main(pydantic_ai)
