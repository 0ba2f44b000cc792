"""`python -m codelab_local --template template.yaml`: run a SAM WebSocket application on this machine.

Environment: HOST, PORT, STATE_DIR, LOCAL_CONCURRENCY, COLD, and others, see `settings.py`.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from codelab_local.cloud import Cloud
from codelab_local.host.errors import StartError, StateError
from codelab_local.host.notices import notice
from codelab_local.settings import kept_sessions
from codelab_local.settings.env_file import changes, with_env_file
from codelab_local.settings.settings import Settings

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        parsed = _parse(arguments)
        settings, note = _settings(parsed)
        if note:
            sys.stderr.write(f"{note}\n")
        if not parsed.keep_sessions or "STATE_DIR" in settings.caller:
            return asyncio.run(_run(settings, parsed))
        return _run_with_sessions(settings, parsed)
    except StartError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


def _settings(parsed: argparse.Namespace) -> tuple[Settings, str]:
    """The settings, and a note for the user. Raises :class:`StartError`."""
    environment, note = dict(os.environ), ""
    if parsed.env_file is not None:
        environment, note = with_env_file(os.environ, parsed.env_file)
    settings = Settings.from_environment(
        Path(parsed.template),
        environment,
        overrides=_pairs(parsed.env, "--env"),
        parameters=_pairs(parsed.parameter, "--parameter"),
        build_page=parsed.build_page,
    )
    return settings, note


def _run_with_sessions(settings: Settings, parsed: argparse.Namespace) -> int:
    """Run with the sessions of the last time; with none of them if they cannot be used, and say so."""
    folder, note = kept_sessions.prepare(settings.template, os.environ, settings.service)
    if note:
        sys.stderr.write(f"{note}\n")
    settings = replace(settings, state_dir=folder)
    try:
        return asyncio.run(_run(settings, parsed))
    except StateError as error:
        assert folder is not None
        set_aside = kept_sessions.set_aside(folder)
        sys.stderr.write(f"{error}\nIt is set aside as {set_aside}; this start begins anew\n")
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
    try:
        return asyncio.run(_run(settings, parsed))
    except StartError:  # so it is not what was kept: a template that was changed, for example, is wrong
        kept_sessions.put_back(set_aside, folder)
        sys.stderr.write(f"This does not start either, so what was kept is in {folder} again\n")
        raise


async def _run(settings: Settings, parsed: argparse.Namespace) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in _STOPPING:
        # A second Ctrl-C has no effect: the cleanup takes bounded time.
        loop.add_signal_handler(number, stop.set)
    if parsed.until_eof:
        loop.add_reader(sys.stdin.fileno(), _read_to_eof, loop, stop)
    cloud = Cloud(settings)
    following: asyncio.Future[None] | None = None
    try:
        starting = asyncio.ensure_future(cloud.start())
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            if parsed.info is not None:
                _write_privately(Path(parsed.info), json.dumps(cloud.describe()))
            sys.stderr.writelines(f"{hint}\n" for hint in cloud.hints)
            sys.stderr.flush()  # first: whoever waits for the line below may read them
            sys.stdout.write(f"ready {cloud.url}\n")
            sys.stdout.writelines(f"{line.replace('{address}', cloud.address)}\n" for line in settings.greeting)
            if parsed.keep_sessions and settings.state_dir is not None:
                sys.stdout.write(f"Sessions are kept in {settings.state_dir}\n")
            if cloud.view is not None:
                sys.stdout.write(f"The cloud view, for you alone:\n{cloud.view}\n")
            sys.stdout.flush()
            cloud.build_page()
            if parsed.env_file is not None:
                following = asyncio.ensure_future(_follow(cloud, settings, parsed))
        else:
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError, StartError):
                await starting
        failing = asyncio.ensure_future(cloud.failure.wait())
        await asyncio.wait({stopping, failing}, return_when=asyncio.FIRST_COMPLETED)
        return 0 if stop.is_set() else 1
    finally:
        if following is not None:
            following.cancel()
        await cloud.stop()
        # The handlers end with the event loop; after that, a signal would interrupt the exit.
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)


async def _follow(cloud: Cloud, settings: Settings, parsed: argparse.Namespace) -> None:
    """Give the functions the variables of the file whenever it changes: `codelab setup` needs no restart."""
    variables = settings.caller
    async for _ in changes(parsed.env_file):
        try:
            # In a thread: a keyring may take its time.
            new_settings, note = await asyncio.to_thread(_settings, parsed)
            if new_settings.caller == variables:
                continue
            cloud.use_variables(new_settings.caller)
        except StartError as error:
            notice(f"{error}. What ran before goes on")
            continue
        variables = new_settings.caller
        notice(f"from now on: {note}" if note else f"from now on: without {parsed.env_file}")
        for hint in cloud.hints:
            notice(hint)


def _read_to_eof(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Stop at the end of stdin: whoever started this program has ended."""
    if not os.read(sys.stdin.fileno(), 4_096):
        loop.remove_reader(sys.stdin.fileno())
        stop.set()


def _write_privately(path: Path, text: str) -> None:
    """Write `text` to a file that only this user can read: it contains keys."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m codelab_local",
        description="Run a SAM WebSocket application on this machine, without an account and without Docker.",
        epilog="Environment: HOST (127.0.0.1), PORT (8000), STATE_DIR (memory only), LOCAL_CONCURRENCY (100), COLD=1.",
    )
    parser.add_argument("--template", default="template.yaml", help="the SAM template (default: %(default)s)")
    parser.add_argument("--env", action="append", metavar="NAME=VALUE", help="set a variable of every function")
    parser.add_argument(
        "--env-file",
        type=lambda text: Path(text).expanduser() if text else None,
        metavar="FILE",
        help="NAME=VALUE lines, unless the environment has one of the names; a change counts at once",
    )
    parser.add_argument(
        "--keep-sessions", action="store_true", help="keep sessions in a folder of yours, unless STATE_DIR is set"
    )
    parser.add_argument("--parameter", action="append", metavar="NAME=VALUE", help="set a parameter of the template")
    parser.add_argument("--until-eof", action="store_true", help="stop when stdin ends")
    parser.add_argument(
        "--build-page", default="", metavar="COMMAND", help="build the project's web page while the system runs"
    )
    parser.add_argument("--info", help=argparse.SUPPRESS)  # Where a test wants the addresses.
    return parser.parse_args(arguments)


def _pairs(values: Sequence[str] | None, option: str) -> dict[str, str]:
    pairs = [value.partition("=") for value in values or ()]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise StartError(f"{option} must be NAME=VALUE, not {name!r}", 2)
    return {name: value for name, _, value in pairs}
