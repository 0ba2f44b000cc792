"""What this machine has already: servers of models on their usual ports, and keys in the environment.

The servers are asked for their models, without a key. A key is only named: nobody is sent it who was not chosen.
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass

from codelab_client.setup import endpoint
from codelab_client.setup.errors import SetupError
from codelab_client.setup.model_file import Model
from codelab_client.setup.providers import PROVIDERS

#: Whose usual port it is: the title, the provider, and the address.
SERVERS = (
    ("Ollama", "ollama-chat", "http://localhost:11434/api"),
    ("LM Studio", "generic", "http://localhost:1234/v1"),
    ("llama.cpp", "llama.cpp", "http://localhost:8080/v1"),
    ("vLLM", "vllm", "http://localhost:8000/v1"),
)
#: The variables that providers' own tools read their key from.
KEY_VARIABLES = {
    "OPENAI_API_KEY": "openai",
    "ANTHROPIC_API_KEY": "anthropic-messages",
    "GEMINI_API_KEY": "gemini",
    "GOOGLE_API_KEY": "gemini",
    "MISTRAL_API_KEY": "mistral",
    "GROQ_API_KEY": "groq",
    "DEEPSEEK_API_KEY": "deepseek",
    "MOONSHOT_API_KEY": "moonshot",
    "OPENROUTER_API_KEY": "openrouter",
}
_BEDROCK_KEY = "AWS_BEARER_TOKEN_BEDROCK"
#: A server on this machine answers at once, or is not there.
_ANSWER_S = 1.0


@dataclass(frozen=True)
class Candidate:
    """Something to choose. about: in one line, for people. key_variable: where its key is, empty without one."""

    provider: str
    url: str
    about: str
    key_variable: str = ""


async def servers_here() -> list[Candidate]:
    """The servers that list models."""
    candidates = await asyncio.gather(*(_server(*server) for server in SERVERS))
    return [candidate for candidate in candidates if candidate is not None]


async def _server(title: str, provider: str, url: str) -> Candidate | None:
    model = Model(provider, url, "")
    try:
        names = await endpoint.models(model, _ANSWER_S)
    except SetupError:
        return None
    suffix = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return Candidate(provider, url, f"{title} at {model.host}: {names[0][:30]}{suffix}")


def keys_here(environment: Mapping[str, str] = os.environ) -> list[Candidate]:
    """The keys of providers, each provider once."""
    by_provider: dict[str, Candidate] = {}
    for variable, name in KEY_VARIABLES.items():
        if environment.get(variable, "").strip() and name not in by_provider:
            provider = PROVIDERS[name]
            by_provider[name] = Candidate(name, provider.url, f"{provider.title}, with the key in {variable}", variable)
    if environment.get(_BEDROCK_KEY) and (
        region := environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    ):
        url = f"https://bedrock-runtime.{region}.amazonaws.com"
        about = f"Amazon Bedrock in {region}, with the key in {_BEDROCK_KEY}"
        by_provider["bedrock"] = Candidate("bedrock-converse", url, about, _BEDROCK_KEY)
    return list(by_provider.values())


def aws_note(environment: Mapping[str, str] = os.environ) -> str:
    """What credentials of AWS are good for; empty without any."""
    if not any(environment.get(name) for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", _BEDROCK_KEY)):
        return ""
    return "There are AWS credentials: `make deploy` uses a model of Bedrock, Claude and Nova too, without a key."
