"""The command `codelab`."""

import argparse
import asyncio
import codecs
import contextlib
import io
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codelab_client.arguments import parser
from codelab_client.config import Config, ConfigError, load
from codelab_client.session.address import DEFAULT_URL, Address, checked_session_id
from codelab_client.session.errors import InvalidAddress, SessionError, Unauthorized, Unreachable

if TYPE_CHECKING:
    from codelab_client.terminal.background import Background

_START = f"""\
Start one with `make run` in a checkout of codelab-serverless: it listens at
{DEFAULT_URL}. Or name another one with --url or CODELAB_URL."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `codelab` with these arguments. Returns the exit code."""
    _accept_all_characters()
    options = parser().parse_args(arguments)
    if options.command != "uninstall":  # which would find what was just made
        _close_state()
    try:
        return asyncio.run(_until_signal(_COMMANDS[options.command](options)))
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except InvalidAddress as error:
        return _failed(str(error), 2)
    except ConfigError as error:
        return _failed(str(error), 2)
    except Unauthorized as error:
        return _failed(
            f"{error}. "
            "`codelab login` signs in, or set CODELAB_TOKEN; `make token USER=…` prints a token of a deployed stack.",
            4,
        )
    except Unreachable as error:
        return _failed(f"{error}.\n{_START}", 3)
    except SessionError as error:
        return _failed(str(error), 3)


async def _until_signal(work: Coroutine[Any, Any, int]) -> int:
    """Do the work. A signal that asks to end, such as that of a closed terminal, cancels it: its processes end with it.

    Returns the exit code.
    """
    task, numbers = asyncio.ensure_future(work), list[int]()

    def end(number: int) -> None:
        numbers.append(number)
        task.cancel()

    loop = asyncio.get_running_loop()
    for name in ("SIGTERM", "SIGHUP"):
        with contextlib.suppress(AttributeError, NotImplementedError, RuntimeError):
            number = getattr(signal, name)
            loop.add_signal_handler(number, end, number)
    try:
        return await task
    except (asyncio.CancelledError, OSError):  # a closed terminal cannot be written to
        if not numbers:
            raise
        return 128 + numbers[0]


def _close_state() -> None:
    """Close to others what older versions left open. Whoever needs the state says why it cannot be used."""
    from codelab_client import private_folder
    from codelab_client.private_file import PrivateFileError
    from codelab_client.session.journal import state_folder

    with contextlib.suppress(PrivateFileError):
        private_folder.ensure(state_folder())


def _accept_all_characters() -> None:
    """Write what the output's encoding lacks as an escape: the agent's text is of any language, the locale may be C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if isinstance(sys.stdin, io.TextIOWrapper):
        is_ascii = codecs.lookup(sys.stdin.encoding).name == "ascii"
        sys.stdin.reconfigure(encoding="utf-8" if is_ascii else sys.stdin.encoding, errors="replace")


def _typed(argument: str) -> str:
    """An argument, read as UTF-8 if the locale's encoding cannot read it."""
    if argument.isascii() or not any("\udc80" <= character <= "\udcff" for character in argument):
        return argument
    return os.fsencode(argument).decode(errors="replace")


def _failed(message: str, code: int) -> int:
    from codelab_client.safe_text import safe

    sys.stderr.write(f"codelab: {safe(message)}\n")
    return code


def address_of(options: argparse.Namespace, config: Config) -> Address:
    """The server that the options, the environment or the user's file name. Raises InvalidAddress."""
    named_url = getattr(options, "url", None) or os.environ.get("CODELAB_URL")
    url = named_url or config.url or DEFAULT_URL
    rest_url = getattr(options, "rest_url", None) or os.environ.get("CODELAB_REST_URL", "")
    if not rest_url and (not named_url or named_url == config.url):
        rest_url = config.rest_url
    return Address.parse(url, rest_url, insecure_token=getattr(options, "insecure_token", False))


def workspace_of(options: argparse.Namespace) -> Path:
    """The folder that the options name. Raises InvalidAddress if it is not a folder."""
    workspace = Path(getattr(options, "workspace", None) or ".").resolve()
    if not workspace.is_dir():
        raise InvalidAddress(f"{workspace} is not a folder")
    if workspace == Path(workspace.anchor):
        raise InvalidAddress("The root of the file system cannot be the folder to work in")
    return workspace


async def newest_token(address: Address) -> str:
    """The newest token: of the environment, else of `codelab login` at this server; empty if there is none.

    Raises Unauthorized.
    """
    if file := os.environ.get("CODELAB_TOKEN_FILE"):
        try:
            return Path(file).read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            raise Unauthorized(f"{file}: {getattr(error, 'strerror', None) or error}") from None
    if token := os.environ.get("CODELAB_TOKEN", "").strip():
        return token
    from codelab_client.login import renewing

    return await renewing.newest_token(address.origin)


def answerer_of(options: argparse.Namespace, config: Config, *, is_new: bool) -> tuple[str | None, str | None]:
    """The agent and the model that the options name, or, for a new conversation, the files."""
    agent, model = getattr(options, "agent", None), getattr(options, "model", None)
    return agent or (config.agent if is_new else "") or None, model or (config.model if is_new else "") or None


def session_of(options: argparse.Namespace, address: Address, workspace: Path) -> str | None:
    """The session that the options name; None for a new one. Raises InvalidAddress."""
    from codelab_client.last_sessions import last_session

    if getattr(options, "again", False):
        last_id = last_session(address, workspace)
        if last_id is None:
            raise InvalidAddress(f"There is no conversation in {workspace} to go on with")
        return last_id
    session_id: str | None = getattr(options, "session", None)
    return None if session_id is None else checked_session_id(session_id)


async def _talk(options: argparse.Namespace) -> int:
    workspace = workspace_of(options)
    config = load(workspace)
    address = address_of(options, config)
    if not sys.stdin.isatty():
        sys.stderr.write("codelab: stdin is not a terminal; `codelab exec PROMPT` answers one prompt.\n")
        return 2
    async with contextlib.AsyncExitStack() as exit_stack:
        is_named = bool(getattr(options, "url", None) or os.environ.get("CODELAB_URL") or config.url)
        is_own = await _start_if_missing(address, is_named=is_named, exit_stack=exit_stack)
        return await _talk_to(address, workspace, options, config, is_own=is_own)


async def _start_if_missing(address: Address, *, is_named: bool, exit_stack: contextlib.AsyncExitStack) -> bool:
    """Start the local cloud if this is a checkout and no server runs; ask first if the user named the address.

    Returns whether it was started.
    """
    from codelab_client import local_cloud
    from codelab_client.line_input import ask
    from codelab_client.session.journal import state_folder

    folder = local_cloud.checkout()
    if folder is None or not local_cloud.is_missing(address):
        return False
    if is_named:
        answer = await ask(f"Nothing listens at {address.shown}.\nStart the local cloud of {folder} there? [Y/n] ")
        if answer.strip().lower() not in ("", "y", "yes"):
            return False
    sys.stderr.write(
        f"No server runs at {address.shown}: starting the local cloud of {folder}, which stops with codelab.\n"
        "`make run` starts one that stays.\n"
    )
    await exit_stack.enter_async_context(local_cloud.running(folder, address, state_folder()))
    return True


async def _talk_to(
    address: Address, workspace: Path, options: argparse.Namespace, config: Config, *, is_own: bool
) -> int:
    from codelab_client.terminal import choose_session, talk
    from codelab_client.terminal.background import Background
    from codelab_client.terminal.early_keys import kept_keys

    plain = options.plain or not sys.stdout.isatty() or os.environ.get("TERM", "") in ("", "dumb")
    token = partial(newest_token, address)
    # On lines only, the terminal edits them and echoes.
    with contextlib.nullcontext("") if plain else kept_keys() as keys:
        background = Background() if plain or os.environ.get("NO_COLOR") else _background(config)
        if options.command == "resume" and not options.session:
            session_id = await choose_session(address, workspace, token, plain=plain, is_light=background.is_light)
            if session_id is None:
                return 0
        else:
            session_id = session_of(options, address, workspace)
        agent, model = answerer_of(options, config, is_new=session_id is None)
        return await talk(
            address,
            workspace,
            token,
            session_id,
            plain=plain,
            notify=config.notify,
            background=replace(background, typed=keys + background.typed),
            agent=agent,
            model=model,
            is_own=is_own,
        )


def _background(config: Config) -> "Background":
    from codelab_client.terminal.background import background, terminal_answer

    return background(config.background, os.environ, terminal_answer)


async def _exec(options: argparse.Namespace) -> int:
    from codelab_client import last_sessions, one_prompt, waiting
    from codelab_client.local_executor import LocalExecutor
    from codelab_client.policy import Policy, PolicyError
    from codelab_client.project.agents import ProjectAgents
    from codelab_client.project.permissions import ProjectPermissions
    from codelab_client.session import Refused, connect
    from codelab_client.session.journal import state_folder
    from codelab_client.unattended import unattended_executor

    workspace = workspace_of(options)
    config = load(workspace)
    address = address_of(options, config)
    session_id = session_of(options, address, workspace)
    try:
        policy = Policy.load(options.policy) if getattr(options, "policy", None) else Policy()
    except PolicyError as error:
        return _failed(str(error), 2)
    prompt = sys.stdin.read() if options.prompt == "-" else _typed(options.prompt)
    if not prompt.strip():
        return _failed("The prompt is empty", 2)
    if prompt.startswith("/"):
        try:
            prompt = await _expanded(prompt, workspace)
        except PermissionError as error:
            return _failed(str(error), 2)
    ask = options.prompt != "-" and sys.stdin.isatty() and sys.stderr.isatty()
    permissions = ProjectPermissions.load(workspace)
    local = LocalExecutor(workspace)
    executor, hooks = await unattended_executor(local, workspace, one_prompt.say)
    agent, model = answerer_of(options, config, is_new=session_id is None)
    token = partial(newest_token, address)
    opening = connect(
        address,
        workspace,
        session_id=session_id,
        token=token,
        executor=executor,
        on_event=waiting.tell,
        decided_elsewhere=options.decided_elsewhere,
        situation=local.situation,
        restrictions=permissions,
    )
    looking = asyncio.ensure_future(local.about())
    async with opening as session:
        last_sessions.remember(address, workspace, session.session_id)
        try:
            await session.instruct(*await looking)
            agents = ProjectAgents(workspace, state_folder(), one_prompt.say, lambda: executor.tools_supported)
            await agents.start(None, session)
            if model:
                await session.configure(model=model)
            if agent:
                await session.switch_agent(agent)
            code = await one_prompt.run(session, prompt, policy, permissions, as_json=options.json, ask=ask)
            await hooks.end_turn("failed" if code == one_prompt.FAILED else "completed")
            return code
        except Refused as refusal:
            after = f" Try again in {refusal.retry_after} s." if refusal.retry_after else ""
            return _failed(f"{refusal.code}: {refusal}{after}", one_prompt.FAILED)


async def _expanded(prompt: str, workspace: Path) -> str:
    """What a prompt means that may be a command of a file. Raises PermissionError for one that nobody has trusted."""
    from codelab_client.project.commands import commands_of, may_send
    from codelab_client.session.journal import state_folder
    from codelab_client.trust import TrustFile

    name, _, arguments = prompt[1:].partition(" ")
    command = commands_of(workspace, (), lambda _: None).get(name)
    if command is None:
        return prompt
    if not await may_send(command, "", TrustFile(state_folder(), workspace), None):
        raise PermissionError(f"{command.place} is not sent: nobody has trusted it. /{name} in `codelab` shows it")
    return command.expanded(arguments.strip())


async def _attach(options: argparse.Namespace) -> int:
    from codelab_client.attached import attach

    workspace = workspace_of(options)
    address = address_of(options, load(workspace))
    return await attach(address, workspace, partial(newest_token, address), checked_session_id(options.session))


async def _notify(options: argparse.Namespace) -> int:
    from codelab_client.desktop import Desktop
    from codelab_client.notified import notify

    workspace = workspace_of(options)
    address = address_of(options, load(workspace))
    ids = [checked_session_id(session_id) for session_id in options.sessions]
    desktop = None if options.bell else Desktop(os.environ, workspace)
    return await notify(address, partial(newest_token, address), list(dict.fromkeys(ids)), desktop)


async def _doctor(options: argparse.Namespace) -> int:
    from codelab_client.doctor import examine

    workspace = workspace_of(options)
    address = address_of(options, load(workspace))
    return await examine(address, workspace, partial(newest_token, address))


async def _prompt(options: argparse.Namespace) -> int:
    from codelab_client.local_executor import LocalExecutor
    from codelab_client.next_request import show

    workspace = workspace_of(options)
    address = address_of(options, load(workspace))
    options.again = not getattr(options, "session", None)
    session_id = session_of(options, address, workspace)
    assert session_id is not None
    local = LocalExecutor(workspace)
    try:
        situation = await local.situation()
    finally:
        await local.aclose()
    token, message = partial(newest_token, address), _typed(options.message)
    return await show(address, token, session_id, message, situation, as_json=options.json)


async def _acp(options: argparse.Namespace) -> int:
    from codelab_client.acp.agent import Server
    from codelab_client.acp.serving import serve

    config = load(Path(getattr(options, "workspace", None) or "."))
    address = address_of(options, config)
    if options.login:
        return await _log_in(address, device=options.login == "device")
    return await serve(Server(address, partial(newest_token, address), options.sandbox))


async def _log_in(address: Address, *, device: bool) -> int:
    """Sign in as the server wants it: at its provider, or with a token if it names none."""
    from codelab_client.login import command
    from codelab_client.login.errors import NoProvider

    try:
        return await command.log_in(address, device=device)
    except NoProvider as error:
        sys.stderr.write(f"{error}.\n")
        return await command.paste(address)


async def _login(options: argparse.Namespace) -> int:
    from codelab_client.login import command

    address = address_of(options, load(workspace_of(options)))
    if options.token:
        return await command.paste(address)
    return await command.log_in(
        address, issuer=options.issuer, device=options.device, browser=options.browser, port=options.port
    )


async def _setup(options: argparse.Namespace) -> int:
    from codelab_client.setup.command import SetupOptions, set_up
    from codelab_client.setup.errors import SetupError

    request = SetupOptions(
        options.provider,
        options.base_url,
        options.model,
        options.key_file,
        gguf=options.gguf,
        test=options.test,
        keyring=options.keyring,
    )
    try:
        return await set_up(request)
    except SetupError as error:
        return _failed(str(error), 1)


async def _judge(options: argparse.Namespace) -> int:
    from codelab_client.judge import command

    decisions = {"approve": options.approve, "reject": options.reject, "edit": options.edit}
    lines = {decision: line for decision, line in decisions.items() if line is not None}
    return await command.run(options.client, options.port, lines, options.patience, is_browser=options.browser)


async def _conformance(options: argparse.Namespace) -> int:
    from codelab_client.conformance.command import run
    from codelab_client.conformance.dialogues import Subject

    address = Address.parse(options.url, insecure_token=options.insecure_token)
    token = await newest_token(address)
    return await run(Subject(address, token, options.patience, options.read, options.write))


async def _uninstall(options: argparse.Namespace) -> int:
    from codelab_client.uninstall import uninstall

    return await uninstall(agreed=options.yes)


async def _logout(options: argparse.Namespace) -> int:
    from codelab_client.login import command

    return await command.log_out(address_of(options, load(workspace_of(options))))


_COMMANDS = {
    "talk": _talk,
    "resume": _talk,
    "exec": _exec,
    "acp": _acp,
    "attach": _attach,
    "notify": _notify,
    "doctor": _doctor,
    "prompt": _prompt,
    "login": _login,
    "logout": _logout,
    "setup": _setup,
    "judge": _judge,
    "conformance": _conformance,
    "uninstall": _uninstall,
}

if __name__ == "__main__":
    sys.exit(main())
