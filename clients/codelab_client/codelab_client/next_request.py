"""`codelab prompt`: what the model would read next."""

import json
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from codelab_client.safe_text import safe, safe_line
from codelab_client.session import tokens
from codelab_client.session.address import Address
from codelab_client.session.rest import Rest, RestError, of_session


async def show(
    address: Address,
    token: tokens.Token,
    session_id: str,
    message: str,
    situation: Mapping[str, str],
    *,
    as_json: bool,
) -> int:
    """Print the request that the session's next step would send, or only its JSON. Returns the exit code.

    situation: what the message would tell of the workspace, see `LocalExecutor.situation`.
    """
    query = {"message": message} if message else {}
    query |= {"environment": json.dumps(situation)} if situation else {}
    try:
        prompt = await Rest(address, token).get(f"/sessions/{of_session(session_id)}/prompt?{urlencode(query)}")
    except RestError as error:
        sys.stderr.write(f"codelab: {safe(str(error))}\n")
        return {0: 3, 401: 4}.get(error.status, 1)
    if as_json:
        sys.stdout.write(json.dumps(prompt["request"], ensure_ascii=False, indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(_lines(prompt)) + "\n")
    return 0


def _lines(prompt: Mapping[str, Any]) -> list[str]:
    request, tokens = prompt["request"], prompt["tokens"]
    parts = ", ".join(f"{name} {count:,}" for name, count in tokens.items() if count)
    lines = [
        f"agent {safe_line(prompt['agent'])}, model {safe_line(prompt['model'])}",
        f"about {sum(tokens.values()):,} tokens: {parts}",
    ]
    for message in request["messages"]:
        lines += ["", f"── {safe_line(message['role'])} " + "─" * 20]
        content = message.get("content")
        if content is not None:
            lines.append(safe(content if isinstance(content, str) else _json(content)))
        fields = {name: value for name, value in message.items() if name not in ("role", "content")}
        if fields:
            lines.append(safe(_json(fields)))
    settings = {name: value for name, value in request.items() if name != "messages"}
    return [*lines, "", "── beside the messages " + "─" * 20, safe(_json(settings))]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
