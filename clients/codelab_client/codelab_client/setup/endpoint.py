"""What an endpoint says: its models, and the answer to a question. All of it may be hostile."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from codelab_client.safe_text import safe_line
from codelab_client.session import http
from codelab_client.setup.apis import CHAT_COMPLETIONS, Api
from codelab_client.setup.errors import SetupError, Unsupported
from codelab_client.setup.model_file import Model, check_secrecy
from codelab_client.setup.providers import PROVIDERS

QUESTION = "Reply with one word: ready"

_LIST_S, _QUESTION_S = 15.0, 60.0
#: Statuses of an endpoint that does not want such a request, now or later.
_UNSUPPORTED = frozenset({400, 404, 405, 415, 422, 500, 501})
_MOST_BYTES = 4_000_000
_MOST_MODELS = 5_000
_MOST_NAME_CHARS = 200
#: Of the answer to the question, which may be thought about.
_MOST_TOKENS = 400


async def models(model: Model, most_s: float = _LIST_S) -> list[str]:
    """The names of the models that the endpoint lists, sorted. Raises SetupError if it lists none in that time."""
    api = api_of(model)
    response = await _ask("GET", api.models_path, model, None, most_s)
    items = response.get(api.models_field)
    first_items = items[:_MOST_MODELS] if isinstance(items, list) else []
    valid_names = sorted({item[api.name_field] for item in first_items if _is_model(item, api.name_field)})
    if not valid_names:
        raise SetupError(f"{model.host} lists no models")
    return valid_names


def _is_model(item: Any, name_field: str) -> bool:
    name = item.get(name_field) if isinstance(item, dict) else None
    return isinstance(name, str) and 0 < len(name) <= _MOST_NAME_CHARS and name.isprintable() and " " not in name


def api_of(model: Model) -> Api:
    """What the model's endpoint speaks. The file may name a provider that this version does not know."""
    provider = PROVIDERS.get(model.provider)
    return CHAT_COMPLETIONS if provider is None else provider.api


async def answer(model: Model) -> str:
    """The model's answer to the question, in one short line. Raises SetupError."""
    api, provider = api_of(model), PROVIDERS.get(model.provider)
    # A small model on the user's machine may go on until its window is full; with a key, some refuse this field.
    bounds = {"max_tokens": _MOST_TOKENS} if api is CHAT_COMPLETIONS and provider and not provider.needs_key else {}
    response = await chat(model, QUESTION, bounds, _QUESTION_S)
    try:
        text = api.text_of(response)
    except (KeyError, IndexError, TypeError, AttributeError):
        raise SetupError(
            f"{model.host} does not answer like {api.title}; its address usually ends with {api.ending}"
        ) from None
    return safe_line(text if isinstance(text, str) else "", 100)


async def chat(model: Model, question: str, more_fields: Mapping[str, Any], most_s: float) -> dict[str, Any]:
    """The whole response to a question, unchecked. Raises SetupError, Unsupported if such a request is refused."""
    api = api_of(model)
    body = {**api.question_fields(question), **api.fields, **more_fields}
    if "{model}" not in api.chat_path:
        body = {"model": model.name, "stream": False, **body}
    path = api.chat_path.format(model=quote(model.name, safe=""))
    return await _ask("POST", path, model, json.dumps(body).encode(), most_s)


async def _ask(method: str, path: str, model: Model, body: bytes | None, most_s: float) -> dict[str, Any]:
    """Ask the endpoint for a JSON object, within bounds. Raises SetupError."""
    check_secrecy(model)
    api = api_of(model)
    headers = {"Accept": "application/json", "User-Agent": "codelab", **api.headers}
    if body is not None:
        headers["Content-Type"] = "application/json"
    if model.key:
        key_header = "api-key" if model.provider == "azure" else api.key_header
        headers |= {key_header: model.key} if key_header else {"Authorization": f"Bearer {model.key}"}
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
    error_type = Unsupported if http_answer.status in _UNSUPPORTED else SetupError
    raise error_type(f"{model.host} {_refusal(http_answer.status, model)}{_words(content, model)}")


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
