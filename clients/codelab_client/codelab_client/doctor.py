"""`codelab doctor`: what works, what does not, and what to do about it."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from codelab_client.safe_text import safe, safe_line
from codelab_client.session import (
    Address,
    JournalError,
    SessionError,
    Unauthorized,
    Unreachable,
    connect,
    http,
    new_session_id,
    tokens,
)
from codelab_client.session.address import is_secure
from codelab_client.session.journal import state_folder
from codelab_client.session.tokens import Token
from codelab_client.tools.processes import own_path

#: The session that is opened to see whether it can be: one per machine, so that no others pile up.
_SESSION = "codelab-doctor"


@dataclass(frozen=True)
class Finding:
    """The result of one check. good: None if it is not needed, but useful."""

    name: str
    good: bool | None
    text: str


async def examine(address: Address, workspace: Path, token: Token) -> int:
    """Check everything and print the findings. Returns 0 if codelab can be used, else 1."""
    server, model = await _server(address, workspace, token)
    findings = [
        Finding("workspace", True, str(workspace)),
        server,
        await _token(address, token),
        await _model(address, model),
        await _setup(),
        _state(),
        await asyncio.to_thread(_sandbox),
        _program("git", "git.diff, git.commit and the other git tools, and /undo", workspace),
        _program("rg", "faster search in large projects", workspace),
    ]
    for finding in findings:
        mark = {True: "ok", False: "FAIL", None: "--"}[finding.good]
        sys.stdout.write(f"{mark:4} {finding.name:10} {safe(finding.text)}\n")
    return int(any(finding.good is False for finding in findings))


async def _server(address: Address, workspace: Path, token: Token) -> tuple[Finding, str]:
    """And the name of the model that answers, if the server says it."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    try:
        async with connect(address, workspace, session_id=_SESSION, token=token, viewer=True) as session:
            version, model = (
                (session.info.protocol_version, session.info.model) if session.info is not None else ("", "")
            )
            duration_ms = (loop.time() - start) * 1000
            summary = f"{address.shown}, protocol {safe_line(version)}, opened in {duration_ms:.0f} ms"
            return Finding("server", True, summary), model
    except Unauthorized as error:
        signed_in = "`codelab login` signs in, or set CODELAB_TOKEN"
        return Finding("server", False, f"{address.shown} answers, but: {error}. {signed_in}"), ""
    except Unreachable as error:
        return Finding("server", False, f"{error}. `make run` starts one; --url or CODELAB_URL names another."), ""
    except JournalError:
        return Finding("server", None, f"{address.shown} was not tried: codelab does not start without its state"), ""
    except SessionError as error:
        return Finding("server", False, str(error)), ""


async def _token(address: Address, token: Token) -> Finding:
    import time

    try:
        value = await tokens.current(token)
    except Unauthorized as error:
        return Finding("token", False, str(error))
    if not value:
        return Finding("token", None, "none: `codelab login` gets one, or set CODELAB_TOKEN; `make run` needs none")
    if not is_secure(address.url):
        return Finding("token", False, f"anybody on the way to {address.shown} can read it: use wss://")
    expires = tokens.expires_at(value)
    if expires is None:
        return Finding("token", None, "it does not say when it expires")
    remaining = expires - time.time()
    user = safe_line(tokens.subject(value) or "unknown")
    if remaining <= 0:
        return Finding("token", False, f"of {user}, expired {-remaining / 60:.0f} minutes ago")
    return Finding("token", True, f"of {user}, for {remaining / 60:.0f} more minutes")


async def _model(address: Address, name: str) -> Finding:
    prefix = f"{safe_line(name)}, " if name else ""
    if not address.rest_url:
        return Finding("model", None, f"{prefix}not checked: --rest-url or CODELAB_REST_URL names the REST API")
    health = f"{address.rest_url.removesuffix('/api/v1')}/health"
    try:
        answer = await http.send("GET", health, timeout_s=15)
        report = json.loads(answer.body)
        state = str(report["dependencies"]["llm"])
    except http.HttpError as error:
        return Finding("model", False, f"{health} does not answer: {error}")
    except (ValueError, KeyError, TypeError, RecursionError):
        return Finding("model", False, f"{health} does not answer as documented")
    return Finding("model", state == "available", f"{prefix}{safe_line(state)}, says {health}")


async def _setup() -> Finding:
    """Ask the model of `codelab setup` its question."""
    from codelab_client.setup import endpoint, model_file
    from codelab_client.setup.errors import SetupError

    file = model_file.file()
    try:
        model = await asyncio.to_thread(model_file.read)
        if model is None:
            return Finding("setup", None, "none, so `make run` has the demonstration model: `codelab setup`")
        label = f"{safe_line(model.name)} of {model.host}"
        set_here = [name for name in ("PROVIDER", "BASE_URL", "MODEL", "API_KEY") if f"LLM_{name}" in os.environ]
        if set_here:
            names = ", ".join(f"LLM_{name}" for name in set_here)
            return Finding("setup", None, f"{label}, but not for what starts here, because {names} is set")
        await endpoint.answer(model)
    except SetupError as error:
        return Finding("setup", False, f"{file}: {' '.join(str(error).split())}")
    return Finding("setup", True, f"{label} answers; {file}")


def _state() -> Finding:
    from codelab_client.session.journal import Journal

    try:
        Journal(state_folder(), f"doctor#{new_session_id()}").close()
    except JournalError as error:
        return Finding("state", False, str(error))
    return Finding("state", True, str(state_folder()))


def _sandbox() -> Finding:
    from codelab_client.sandbox import choose

    choice = choose()
    name = choice.sandbox.name
    guarantees = choice.sandbox.guarantees
    if not guarantees.writes_only_there:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in choice.refusals.items())
        return Finding("sandbox", None, f"none, so an approved command can do what you can: {safe_line(reasons, 400)}")
    return Finding("sandbox", True, f"{name}: commands write only below the workspace")


def _program(name: str, use: str, workspace: Path) -> Finding:
    """Whether a program is there. It is looked up as the client does, so that none of the workspace's is run."""
    path = shutil.which(name, path=own_path(os.environ, workspace.resolve()))
    if path is None:
        return Finding("ripgrep" if name == "rg" else name, None, f"not found, and not necessary; it is for {use}")
    try:
        output = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(name, None, f"{path} cannot be run: {error}")
    return Finding("ripgrep" if name == "rg" else name, True, safe_line(output.partition("\n")[0]))
