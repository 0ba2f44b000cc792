"""What an OpenAI-compatible endpoint says: its models, and the answer to a question. All of it may be hostile."""

import json
from typing import Any

from codelab_client.safe_text import safe_line
from codelab_client.session import http
from codelab_client.setup.errors import SetupError
from codelab_client.setup.model_file import Model, check_secrecy

QUESTION = "Reply with one word: ready"

_LIST_S, _QUESTION_S = 15.0, 60.0
_MOST_BYTES = 4_000_000
_MOST_MODELS = 5_000
_MOST_NAME_CHARS = 200


async def models(model: Model, most_s: float = _LIST_S) -> list[str]:
    """The names of the models that the endpoint lists, sorted. Raises SetupError if it lists none in that time."""
    response = await _ask("GET", "/models", model, None, most_s)
    data = response.get("data")
    names = {item["id"] for item in data[:_MOST_MODELS] if _is_model(item)} if isinstance(data, list) else set()
    if not names:
        raise SetupError(f"{model.host} lists no models")
    return sorted(names)


def _is_model(item: Any) -> bool:
    name = item.get("id") if isinstance(item, dict) else None
    return isinstance(name, str) and 0 < len(name) <= _MOST_NAME_CHARS and name.isprintable() and " " not in name


async def answer(model: Model) -> str:
    """The model's answer to the question, in one short line. Raises SetupError."""
    body = {"model": model.name, "messages": [{"role": "user", "content": QUESTION}], "stream": False}
    response = await _ask("POST", "/chat/completions", model, json.dumps(body).encode(), _QUESTION_S)
    try:
        text = response["choices"][0]["message"].get("content")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise SetupError(
            f"{model.host} does not answer like an OpenAI-compatible endpoint; its address usually ends with /v1"
        ) from None
    return safe_line(text if isinstance(text, str) else "", 100)


async def _ask(method: str, path: str, model: Model, body: bytes | None, most_s: float) -> dict[str, Any]:
    """Ask the endpoint for a JSON object, within bounds. Raises SetupError."""
    check_secrecy(model)
    headers = {"Accept": "application/json", "User-Agent": "codelab"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    if model.key:
        name, value = ("api-key", model.key) if model.provider == "azure" else ("Authorization", f"Bearer {model.key}")
        headers[name] = value
    url = f"{model.url}{path}"
    try:
        http_answer = await http.send(method, url, body, headers, most_s, in_all_s=most_s, most_bytes=_MOST_BYTES)
    except http.HttpError as error:
        raise SetupError(f"{model.host} does not answer: {safe_line(error)}") from None
    try:
        content = json.loads(http_answer.body)
    except (ValueError, RecursionError):
        content = None
    if http_answer.status == 200 and isinstance(content, dict):
        return content
    raise SetupError(f"{model.host} {_refusal(http_answer.status, model)}{_words(content, model)}")


def _refusal(status: int, model: Model) -> str:
    match status:
        case 200:
            return f"does not answer with JSON: is {safe_line(model.url)} the whole address?"
        case 401 | 403:
            return f"refuses the key (HTTP {status})" if model.key else f"needs a key (HTTP {status})"
        case 404:
            return f"knows no such address or model (HTTP 404): {safe_line(model.url)}, {safe_line(model.name)}"
        case 429:
            return "refuses for now (HTTP 429): too many requests, or no credit"
        case _ if 300 <= status < 400:
            return f"answers from another address (HTTP {status}): give that one"
        case _:
            return f"refuses (HTTP {status})"


def _words(content: Any, model: Model) -> str:
    """The endpoint's own words, without the key, which some endpoints repeat."""
    error = content.get("error") if isinstance(content, dict) else None
    words = error.get("message") if isinstance(error, dict) else error
    if not isinstance(words, str) or not words:
        return ""
    return f"\n  “{safe_line(words.replace(model.key, '…') if model.key else words, 300)}”"
