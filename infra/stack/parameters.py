"""Parses PARAMETERS="NAME=VALUE …" and passes them to the SAM CLI.

They are passed in a file that only this user can read, because `ps` shows arguments to every user.
"""

import difflib
import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from codelab_local.host.errors import StartError
from codelab_local.settings.env_file import read_env_file

from infra.stack.stack import Refused

_ONE = re.compile(r"""\s*(?P<name>\w+)=(?P<value>"(?:\\.|[^"\\])*"(?!\S)|'[^']*'(?!\S)|\S*)""")
#: SAM removes quotes around a value, and a backslash before a quote or a space.
_ALTERED = re.compile(r"""\A(["']).*\1\Z|\\["' ]""", re.DOTALL)
_FROM_FILE = "file://"


def read(text: str, known: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Parse `text` into values by name. A value `file://path` stands for the file's content.

    Raises Refused for a syntax error, an unknown parameter (which SAM would silently ignore) or a value that is not
    allowed. The message contains no value of a secret.
    """
    given: dict[str, str] = {}
    at = 0
    while text[at:].strip():
        found = _ONE.match(text, at)
        if found is None:
            raise Refused("PARAMETERS must be NAME=VALUE NAME=VALUE …; quote values with spaces")
        at = found.end()
        given[found["name"]] = _value(found["name"], found["value"])
    check(given, known)
    return given


#: The parameters of a model, by the variables of `make run` that a model file has.
_OF_MODEL = {
    "LLM_PROVIDER": "LlmProvider",
    "LLM_BASE_URL": "LlmBaseUrl",
    "LLM_MODEL": "LlmModel",
    "LLM_API_KEY": "LlmApiKey",
}


def of_model(path: str, known: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The parameters for the model of a file that `codelab setup` wrote; none without a path. Raises Refused."""
    if not path:
        return {}
    try:
        found = read_env_file(Path(path).expanduser())
    except StartError as error:
        raise Refused(str(error)) from None
    if not found.get("LLM_BASE_URL") or not found.get("LLM_MODEL"):
        raise Refused(f"MODEL_FILE={path} names no model: run .venv/bin/codelab setup")
    host = urlsplit(found["LLM_BASE_URL"]).hostname or ""
    if host == "localhost" or host.startswith("127.") or host == "::1":
        raise Refused(f"MODEL_FILE={path} names a model on this machine ({host}), which a stack cannot reach")
    # A value that is not given would keep that of an earlier model.
    given = {parameter: found.get(variable, "") for variable, parameter in _OF_MODEL.items()}
    given = {**given, "LlmProvider": given["LlmProvider"] or "openai", "LlmFoundationModel": ""}
    if capabilities := found.get("LLM_CAPABILITIES"):
        given["LlmCapabilities"] = capabilities
    check(given, known)
    return given


def check(given: Mapping[str, str], known: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise Refused for an unknown parameter, which SAM would silently ignore, or a value that is not allowed."""
    for name, value in given.items():
        if name not in known:
            raise Refused(f"unknown parameter {name}: {_instead(name, list(known), 'docs/parameters.md')}")
        if _ALTERED.search(value):
            raise Refused(f"{name} cannot be passed to SAM: it removes quotes around a value and a \\ before one")
        allowed = [str(one) for one in known[name].get("AllowedValues", ())]
        if allowed and value not in allowed:
            raise Refused(f"invalid {name} {value!r}: {_instead(value, allowed, ', '.join(allowed))}")


def _value(name: str, written: str) -> str:
    if len(written) > 1 and written[0] == written[-1] == '"':
        written = re.sub(r"\\(.)", r"\1", written[1:-1])
    elif len(written) > 1 and written[0] == written[-1] == "'":
        written = written[1:-1]
    if not written.startswith(_FROM_FILE):
        return written
    path = Path(written.removeprefix(_FROM_FILE)).expanduser()
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"cannot read {name}={written}: {error}") from None


def _instead(word: str, words: list[str], all_of_them: str) -> str:
    near = difflib.get_close_matches(word, words, n=1)
    return f"did you mean {near[0]}?" if near else f"valid are {all_of_them}"


@contextmanager
def as_arguments(given: Mapping[str, str]) -> Iterator[list[str]]:
    """The arguments that pass `given` to `sam deploy`. Other parameters keep the stack's values."""
    if not given:
        yield []
        return
    with tempfile.TemporaryDirectory(prefix="codelab-deploy-") as folder:  # Its mode is 0700.
        path = Path(folder) / "parameters.yaml"
        path.write_text(json.dumps(dict(given)), encoding="utf-8")
        yield ["--parameter-overrides", f"file://{path}"]
