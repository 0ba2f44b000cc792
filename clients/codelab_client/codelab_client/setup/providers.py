"""Providers of models: the addresses of their endpoints, and what these speak.

Their names are those of `LLM_PROVIDER`.
"""

import difflib
import textwrap
from dataclasses import dataclass

from codelab_client.setup.apis import CHAT_COMPLETIONS, CONVERSE, MESSAGES, OLLAMA, RESPONSES, Api
from codelab_client.setup.errors import SetupError


@dataclass(frozen=True)
class Provider:
    """A provider.

    url: empty if every user has their own, which then looks like `example`. needs_key: False if a key is unusual. api:
    what its endpoint speaks.
    """

    name: str
    title: str
    url: str = ""
    needs_key: bool = True
    example: str = ""
    api: Api = CHAT_COMPLETIONS


PROVIDERS = {
    provider.name: provider
    for provider in (
        Provider("openai", "OpenAI", "https://api.openai.com/v1"),
        Provider("openai-responses", "OpenAI, its Responses API", "https://api.openai.com/v1", api=RESPONSES),
        Provider("anthropic-messages", "Anthropic", "https://api.anthropic.com/v1", api=MESSAGES),
        Provider("anthropic", "Anthropic, its OpenAI-compatible endpoint", "https://api.anthropic.com/v1"),
        Provider("gemini", "Google Gemini", "https://generativelanguage.googleapis.com/v1beta/openai"),
        Provider("mistral", "Mistral", "https://api.mistral.ai/v1"),
        Provider("groq", "Groq", "https://api.groq.com/openai/v1"),
        Provider("deepseek", "DeepSeek", "https://api.deepseek.com/v1"),
        Provider("moonshot", "Moonshot", "https://api.moonshot.ai/v1"),
        Provider("openrouter", "OpenRouter, models of many providers", "https://openrouter.ai/api/v1"),
        Provider("azure", "Azure OpenAI", example="https://RESOURCE.openai.azure.com/openai/v1"),
        Provider(
            "bedrock-converse",
            "Amazon Bedrock, with a key of its own: Claude, Nova and others",
            example="https://bedrock-runtime.REGION.amazonaws.com",
            api=CONVERSE,
        ),
        Provider("ollama-chat", "Ollama on this machine", "http://localhost:11434/api", needs_key=False, api=OLLAMA),
        Provider("ollama", "Ollama, its OpenAI-compatible endpoint", "http://localhost:11434/v1", needs_key=False),
        Provider("llama.cpp", "llama.cpp on this machine", "http://localhost:8080/v1", needs_key=False),
        Provider("vllm", "vLLM", needs_key=False, example="http://localhost:8001/v1"),
        Provider("generic", "any other OpenAI-compatible endpoint", example="https://host/v1"),
    )
}
#: Those with anybody's models: what each can do has to be tried.
OPEN = frozenset({"openrouter", "ollama-chat", "ollama", "llama.cpp", "vllm", "generic"})
#: The choice to have none of them.
DEMO = "demo"
_NAMES = [*PROVIDERS, DEMO]
_BEDROCK = (
    "A stack calls Bedrock with its own role, so `make deploy` needs no setup for it. On this machine, choose "
    "`bedrock-converse` with the address https://bedrock-runtime.REGION.amazonaws.com and a Bedrock API key"
)


def checked_name(text: str) -> str:
    """The name of a provider, or DEMO, that a user wrote, also as its number in the list. Raises SetupError."""
    name = text.strip().lower()
    if name.isascii() and name.isdigit() and 1 <= int(name[:3]) <= len(_NAMES):
        return _NAMES[int(name[:3]) - 1]
    if name in _NAMES:
        return name
    if name == "bedrock":
        raise SetupError(_BEDROCK)
    near = difflib.get_close_matches(name, _NAMES, n=1)
    if near:
        raise SetupError(f"Unknown provider {name[:40]}: did you mean {near[0]}?")
    names = textwrap.fill(", ".join(_NAMES), 78, initial_indent="  ", subsequent_indent="  ")
    raise SetupError(f"Unknown provider {name[:40]}. These are known:\n{names}")


def listed() -> str:
    """All choices, one in each line."""
    titles = [*(provider.title for provider in PROVIDERS.values()), "the demonstration model: offline, no key"]
    return "\n".join(
        f"  {number:2}  {name:18} {title}" for number, (name, title) in enumerate(zip(_NAMES, titles, strict=True), 1)
    )
