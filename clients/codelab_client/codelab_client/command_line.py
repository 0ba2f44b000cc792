"""The command `codelab`."""

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from codelab_client import __version__
from codelab_client.config import Config, ConfigError, load
from codelab_client.session.address import DEFAULT_URL, Address, checked_session_id
from codelab_client.session.errors import InvalidAddress, SessionError, Unauthorized, Unreachable

_ENVIRONMENT = """\
environment:
  CODELAB_URL         the server, if --url does not name it
  CODELAB_REST_URL    its REST API, if it is elsewhere (the stack's output RestUrl)
  CODELAB_TOKEN       the authentication token, in place of that of `codelab login`; a local server needs none
  CODELAB_TOKEN_FILE  a file with the token, read again whenever a newer one is needed
  XDG_STATE_HOME      where the journal, the history and the last sessions are kept (~/.local/state)
  NO_COLOR            no colours
"""
_EXIT_CODES = """\
exit codes:
  0    the agent has answered
  1    the turn ended without an answer: an error, a refusal, out of steps or budget
  2    wrong usage
  3    no server, or the session was closed
  4    the token is missing, wrong or expired
  5    the agent has answered, but calls were rejected because nobody could approve them
  130  Ctrl-C; the turn is cancelled
"""
_START = f"""\
Start one with `make run` in a checkout of codelab-serverless (it listens at {DEFAULT_URL}),
or name another one with --url or CODELAB_URL."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `codelab` with these arguments. Returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return asyncio.run(_COMMANDS[options.command](options))
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


def _failed(message: str, code: int) -> int:
    from codelab_client.safe_text import safe

    sys.stderr.write(f"codelab: {safe(message)}\n")
    return code


def _parser() -> argparse.ArgumentParser:
    formatted = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    common.add_argument("--url", help=f"the server; default: $CODELAB_URL, else {DEFAULT_URL}")
    common.add_argument("--rest-url", help="its REST API, if that is elsewhere; default: $CODELAB_REST_URL")
    common.add_argument(
        "--insecure-token",
        action="store_true",
        help="send the token also where others can read it on the way: over ws:// or http:// to another machine",
    )
    common.add_argument("--workspace", type=Path, metavar="FOLDER", help="the folder to work in; default: this one")
    talking = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    which = talking.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="ID", help="the conversation to go on with, or to begin")
    which.add_argument("--continue", dest="again", action="store_true", help="the last conversation in this folder")
    talking.add_argument("--agent", help="the agent that answers")
    talking.add_argument("--model", help="the model that answers, one that the server offers")
    parser = argparse.ArgumentParser(
        prog="codelab",
        description="Talk to the CodeLab agent about the files in this folder. It asks before it changes anything.",
        epilog=_ENVIRONMENT,
        parents=[common, talking],
        **formatted,  # type: ignore[arg-type]
    )
    parser.add_argument("--version", action="version", version=f"codelab {__version__}")
    parser.add_argument("--plain", action="store_true", help="lines only, no cursor control: for screen readers")
    parser.set_defaults(command="talk")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands", prog="codelab")
    one = commands.add_parser(
        "exec",
        help="send one prompt, print the answer",
        description="Send one prompt and print the answer. What happens on the way goes to stderr. Calls that need "
        "approval are asked about if there is a terminal, else rejected, unless a policy file allows them.",
        epilog=f"{_EXIT_CODES}\n{_ENVIRONMENT}",
        parents=[common, talking],
        **formatted,  # type: ignore[arg-type]
    )
    one.add_argument("prompt", help="the message; - reads it from stdin")
    one.add_argument("--json", action="store_true", help="print every event as a line of JSON instead")
    one.add_argument("--policy", type=Path, metavar="FILE", help="calls that need no approval, see docs/client.md")
    one.set_defaults(command="exec")
    acp = commands.add_parser(
        "acp",
        help="serve an editor on stdin and stdout",
        description="Serve an editor that speaks the Agent Client Protocol, on stdin and stdout. The editor starts "
        "this command and says in which folder to work, see docs/editors.md.",
        epilog=_ENVIRONMENT,
        parents=[common],
        **formatted,  # type: ignore[arg-type]
    )
    acp.add_argument("--sandbox", action="store_true", help="never run commands in the editor's terminals")
    acp.set_defaults(command="acp")
    attach = commands.add_parser(
        "attach",
        help="execute the tools of a session for another window",
        description="Execute the tools of a session in this folder, for a window that cannot, such as a page in a "
        "browser. That window sends the messages and decides about calls.",
        epilog=_ENVIRONMENT,
        parents=[common],
        **formatted,  # type: ignore[arg-type]
    )
    attach.add_argument("session", metavar="SESSION", help="the session's id")
    attach.set_defaults(command="attach")
    doctor = commands.add_parser(
        "doctor",
        help="check what codelab needs",
        description="Check the server, the token, the model, the sandbox, git and ripgrep.",
        epilog=_ENVIRONMENT,
        parents=[common],
        **formatted,  # type: ignore[arg-type]
    )
    doctor.set_defaults(command="doctor")
    login = commands.add_parser(
        "login",
        help="sign in at the server's identity provider, or keep a token",
        description="Sign in at the identity provider that the server names, and keep the token for this server.",
        epilog=_ENVIRONMENT,
        parents=[common],
        **formatted,  # type: ignore[arg-type]
    )
    how = login.add_mutually_exclusive_group()
    how.add_argument("--token", action="store_true", help="keep a token instead, which is asked for or read from stdin")
    how.add_argument("--device", action="store_true", help="sign in with a browser on another device, by a code")
    how.add_argument("--no-browser", dest="browser", action="store_false", help="show the address, open no browser")
    login.add_argument("--issuer", default="", metavar="URL", help="the issuer that you expect; any other is refused")
    login.add_argument("--port", type=int, default=0, help="the port of this machine that the provider sends back to")
    login.set_defaults(command="login")
    logout = commands.add_parser(
        "logout",
        help="forget the token for the server",
        description="Forget the token that `codelab login` keeps for this server.",
        epilog=_ENVIRONMENT,
        parents=[common],
        **formatted,  # type: ignore[arg-type]
    )
    logout.set_defaults(command="logout")
    return parser


def address_of(options: argparse.Namespace, config: Config) -> Address:
    """The server that the options, the environment or the user's file name. Raises InvalidAddress."""
    named = getattr(options, "url", None) or os.environ.get("CODELAB_URL")
    url = named or config.url or DEFAULT_URL
    rest = getattr(options, "rest_url", None) or os.environ.get("CODELAB_REST_URL", "")
    if not rest and (not named or named == config.url):
        rest = config.rest_url
    return Address.parse(url, rest, insecure_token=getattr(options, "insecure_token", False))


def workspace_of(options: argparse.Namespace) -> Path:
    """The folder that the options name. Raises InvalidAddress if it is none."""
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
        found = last_session(address, workspace)
        if found is None:
            raise InvalidAddress(f"There is no conversation in {workspace} to go on with")
        return found
    session_id: str | None = getattr(options, "session", None)
    return None if session_id is None else checked_session_id(session_id)


async def _talk(options: argparse.Namespace) -> int:
    workspace = workspace_of(options)
    config = load(workspace)
    address = address_of(options, config)
    if not sys.stdin.isatty():
        sys.stderr.write("codelab: stdin is not a terminal; `codelab exec PROMPT` answers one prompt.\n")
        return 2
    async with contextlib.AsyncExitStack() as started:
        is_named = bool(getattr(options, "url", None) or os.environ.get("CODELAB_URL") or config.url)
        await _start_if_missing(address, is_named=is_named, started=started)
        return await _talk_to(address, workspace, options, config)


async def _start_if_missing(address: Address, *, is_named: bool, started: contextlib.AsyncExitStack) -> None:
    """Start the local cloud if this is a checkout and no server runs; ask first if the user named the address."""
    from codelab_client import local_cloud
    from codelab_client.line_input import ask
    from codelab_client.session.journal import state_folder

    folder = local_cloud.checkout()
    if folder is None or not local_cloud.is_missing(address):
        return
    if is_named:
        answer = await ask(f"Nothing listens at {address.shown}. Start the local cloud of {folder} there? [Y/n] ")
        if answer.strip().lower() not in ("", "y", "yes"):
            return
    sys.stderr.write(
        f"No server runs at {address.shown}: starting the local cloud of {folder}, which stops with codelab.\n"
        "`make run` starts one that stays.\n"
    )
    await started.enter_async_context(local_cloud.running(folder, address, state_folder()))


async def _talk_to(address: Address, workspace: Path, options: argparse.Namespace, config: Config) -> int:
    from codelab_client.terminal import talk

    plain = options.plain or not sys.stdout.isatty() or os.environ.get("TERM", "") in ("", "dumb")
    session_id = session_of(options, address, workspace)
    agent, model = answerer_of(options, config, is_new=session_id is None)
    return await talk(
        address, workspace, partial(newest_token, address), session_id, plain=plain, agent=agent, model=model
    )


async def _exec(options: argparse.Namespace) -> int:
    from codelab_client import last_sessions, one_prompt
    from codelab_client.local_executor import LocalExecutor
    from codelab_client.policy import Policy, PolicyError
    from codelab_client.session import Refused, connect
    from codelab_client.unattended import unattended_executor

    workspace = workspace_of(options)
    config = load(workspace)
    address = address_of(options, config)
    session_id = session_of(options, address, workspace)
    try:
        policy = Policy.load(options.policy) if getattr(options, "policy", None) else Policy()
    except PolicyError as error:
        return _failed(str(error), 2)
    prompt = sys.stdin.read() if options.prompt == "-" else options.prompt
    if not prompt.strip():
        return _failed("The prompt is empty", 2)
    ask = options.prompt != "-" and sys.stdin.isatty() and sys.stderr.isatty()
    local = LocalExecutor(workspace)
    executor = await unattended_executor(local, workspace, one_prompt.say)
    agent, model = answerer_of(options, config, is_new=session_id is None)
    token = partial(newest_token, address)
    opening = connect(address, workspace, session_id=session_id, token=token, executor=executor)
    instructing = asyncio.ensure_future(local.instructions())
    async with opening as session:
        last_sessions.remember(address, workspace, session.session_id)
        try:
            await session.instruct(await instructing)
            if model:
                await session.configure(model=model)
            if agent:
                await session.switch_agent(agent)
            return await one_prompt.run(session, prompt, policy, as_json=options.json, ask=ask)
        except Refused as refusal:
            after = f" Try again in {refusal.retry_after} s." if refusal.retry_after else ""
            return _failed(f"{refusal.code}: {refusal}{after}", one_prompt.FAILED)


async def _attach(options: argparse.Namespace) -> int:
    from codelab_client.attached import attach

    workspace = workspace_of(options)
    address = address_of(options, load(workspace))
    return await attach(address, workspace, partial(newest_token, address), checked_session_id(options.session))


async def _doctor(options: argparse.Namespace) -> int:
    from codelab_client.doctor import examine

    workspace = workspace_of(options)
    address = address_of(options, load(workspace))
    return await examine(address, workspace, partial(newest_token, address))


async def _acp(options: argparse.Namespace) -> int:
    from codelab_client.acp.agent import Server
    from codelab_client.acp.serving import serve

    config = load(Path(getattr(options, "workspace", None) or "."))
    address = address_of(options, config)
    return await serve(Server(address, partial(newest_token, address), options.sandbox))


async def _login(options: argparse.Namespace) -> int:
    from codelab_client.login import command

    address = address_of(options, load(workspace_of(options)))
    if options.token:
        return await command.paste(address)
    return await command.log_in(
        address, issuer=options.issuer, device=options.device, browser=options.browser, port=options.port
    )


async def _logout(options: argparse.Namespace) -> int:
    from codelab_client.login import command

    return await command.log_out(address_of(options, load(workspace_of(options))))


_COMMANDS = {
    "talk": _talk,
    "exec": _exec,
    "acp": _acp,
    "attach": _attach,
    "doctor": _doctor,
    "login": _login,
    "logout": _logout,
}

if __name__ == "__main__":
    sys.exit(main())
