"""The arguments of `codelab`."""

import argparse
import difflib
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from codelab_client import __version__
from codelab_client.session.address import DEFAULT_URL

_ENVIRONMENT = """\
environment:
  CODELAB_URL         the server, if --url does not name it
  CODELAB_REST_URL    its REST API, if it is elsewhere (the stack's output RestUrl)
  CODELAB_TOKEN       the authentication token, in place of that of `codelab login`; a local server needs none
  CODELAB_TOKEN_FILE  a file with the token, read again whenever a newer one is needed
  XDG_STATE_HOME      where the journal, the history and the last sessions are kept (~/.local/state)
  XDG_CONFIG_HOME     where your own mcp.json, skills and model.env are (~/.config)
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
_SETUP = """\
examples:
  codelab setup
  codelab setup --provider ollama-chat --model qwen3-coder:30b
  codelab setup --provider openai --model gpt-4.1-mini --key-file key
  pass openai | codelab setup --provider openai --model gpt-4.1-mini --key-file -

environment:
  LLM_API_KEY         the key, if nobody can be asked and no file has it
  XDG_CONFIG_HOME     where codelab/model.env is written (~/.config)

exit codes:
  0    the model is set up
  1    it is not, and nothing was changed
  2    wrong usage
"""
_CONFORMANCE = """\
environment:
  CODELAB_TOKEN       the authentication token, in place of that of `codelab login`; a local server needs none
  CODELAB_TOKEN_FILE  a file with the token

exit codes:
  0    it breaks no rule
  1    it breaks a rule
  2    wrong usage
  3    it cannot be reached
"""


class _Parser(argparse.ArgumentParser):
    """A parser that says what was probably meant."""

    commands: Mapping[str, argparse.ArgumentParser] = {}

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse an unknown option first: what follows it would be taken for a command."""
        args = sys.argv[1:] if args is None else args
        options = set(self._option_string_actions)
        for command in self.commands.values():
            options |= set(command._option_string_actions)
        for argument in args:
            name = argument.partition("=")[0]
            if argument == "--":
                break
            if argument.startswith("--") and " " not in name and name not in options:
                self.error(f"unknown option {name}{_meant(name, options) or ': --help lists the options'}")
        parsed, unparsed = super().parse_known_args(args, namespace)
        if unparsed and not self.commands:  # the parser of all commands would show its own usage
            is_text = not unparsed[0].startswith("-") and {"prompt", "message"} & vars(parsed).keys()
            quote = ": put the whole message in quotes" if is_text else ""
            self.error(f"unexpected {' '.join(unparsed)[:60]!r}{quote}")
        return parsed, unparsed

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices and self.commands:
            names = ", ".join(self.commands)
            suggestion = _meant(str(value), self.commands)
            instead = f': `codelab exec "…"` sends a prompt; the commands are {names}'
            raise argparse.ArgumentError(None, f"{str(value)[:60]!r} is not a command{suggestion or instead}")
        super()._check_value(action, value)


def _meant(word: str, words: Collection[str]) -> str:
    near = difflib.get_close_matches(word, sorted(words), n=1)
    return f": did you mean {near[0]}?" if near else ""


def parser() -> argparse.ArgumentParser:
    """The parser. `command` of its namespace names what to do."""
    formatted = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    common = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    common.add_argument("--url", help=f"the server; default: $CODELAB_URL, else {DEFAULT_URL}")
    common.add_argument("--rest-url", help="its REST API, if that is elsewhere; default: $CODELAB_REST_URL")
    common.add_argument(
        "--insecure-token",
        action="store_true",
        help="send the token also where others can read it on the way: over ws:// or http:// to another machine",
    )
    common.add_argument("--workspace", type=Path, metavar="FOLDER", help="the folder to work in; default: this one")
    talking = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    session_group = talking.add_mutually_exclusive_group()
    session_group.add_argument("--session", metavar="ID", help="the conversation to go on with, or to begin")
    session_group.add_argument(
        "--continue", dest="again", action="store_true", help="the last conversation in this folder"
    )
    talking.add_argument("--agent", help="the agent that answers")
    talking.add_argument("--model", help="the model that answers, one that the server offers")
    root = _Parser(
        prog="codelab",
        description="Talk to the CodeLab agent about the files in this folder. It asks before it changes anything.",
        epilog=_ENVIRONMENT,
        parents=[common, talking],
        **formatted,  # type: ignore[arg-type]
    )
    root.add_argument("--version", action="version", version=f"codelab {__version__}")
    root.add_argument("--plain", action="store_true", help="lines only, no cursor control: for screen readers")
    root.set_defaults(command="talk")
    commands = root.add_subparsers(metavar="COMMAND", title="commands", prog="codelab", parser_class=_Parser)
    root.commands = commands.choices
    prompt_parser = commands.add_parser(
        "exec",
        help="send one prompt, print the answer",
        description="Send one prompt and print the answer. What happens on the way goes to stderr. Calls that need "
        "approval are asked about if there is a terminal, else rejected, unless a policy file allows them.",
        epilog=f"{_EXIT_CODES}\n{_ENVIRONMENT}",
        parents=[common, talking],
        **formatted,  # type: ignore[arg-type]
    )
    prompt_parser.add_argument("prompt", help="the message; - reads it from stdin")
    prompt_parser.add_argument("--json", action="store_true", help="print every event as a line of JSON instead")
    prompt_parser.add_argument(
        "--policy", type=Path, metavar="FILE", help="calls that need no approval, see docs/client.md"
    )
    prompt_parser.add_argument(
        "--decided-elsewhere",
        action="store_true",
        help="also execute calls that were approved elsewhere: in another window, over HTTP, by a rule, or by a mode",
    )
    prompt_parser.set_defaults(command="exec")
    resume = commands.add_parser(
        "resume",
        help="choose a conversation to go on with",
        description="Choose one of your conversations from a list, and go on with it in this folder.",
        epilog=_ENVIRONMENT,
        parents=[common],
        **formatted,  # type: ignore[arg-type]
    )
    resume.add_argument("session", metavar="SESSION", nargs="?", default=None, help="the conversation's id")
    resume.set_defaults(command="resume")
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
    acp.add_argument(
        "--login",
        nargs="?",
        const="browser",
        choices=("browser", "device"),
        help="sign in instead, in a terminal of the editor: with a browser on this machine, or on another device",
    )
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
    notify = commands.add_parser(
        "notify",
        help="tell the desktop when a conversation waits for you or has finished",
        description="Follow your newest conversations, or those that are named, and show a notification of the desktop "
        "when a call waits for you and when a turn has ended or failed. Executes nothing and decides nothing.",
        epilog=_ENVIRONMENT,
        parents=[common],
        **formatted,  # type: ignore[arg-type]
    )
    notify.add_argument("sessions", metavar="SESSION", nargs="*", help="a session's id; default: the ten newest ones")
    notify.add_argument("--bell", action="store_true", help="only ring the terminal's bell")
    notify.set_defaults(command="notify")
    prompt = commands.add_parser(
        "prompt",
        help="print what the model would read next",
        description="Print the request that a conversation's next step would send to the model, and the estimated "
        "tokens of its parts. Nothing is sent. Only a local server tells it.",
        epilog=_ENVIRONMENT,
        parents=[common],
        **formatted,  # type: ignore[arg-type]
    )
    prompt.add_argument("message", nargs="?", default="", help="the message that it answers, if no turn runs")
    prompt.add_argument(
        "--session", metavar="ID", default=argparse.SUPPRESS, help="the conversation; default: the last one here"
    )
    prompt.add_argument("--json", action="store_true", help="print only the request, exactly as it would be sent")
    prompt.set_defaults(command="prompt")
    doctor = commands.add_parser(
        "doctor",
        help="check what codelab needs",
        description="Check the server, the token, the model, what `codelab setup` has set up (by asking the model one "
        "question), the sandbox, git and ripgrep.",
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
    method_group = login.add_mutually_exclusive_group()
    method_group.add_argument(
        "--token", action="store_true", help="keep a token instead, which is asked for or read from stdin"
    )
    method_group.add_argument(
        "--device", action="store_true", help="sign in with a browser on another device, by a code"
    )
    method_group.add_argument(
        "--no-browser", dest="browser", action="store_false", help="show the address, open no browser"
    )
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
    setup = commands.add_parser(
        "setup",
        help="choose the model of the local cloud and of a stack",
        description="Choose the model that answers: its provider, your key, its name. Asks it one question, and keeps "
        "all of it for `make run`, for the local cloud that `codelab` starts, and for `make deploy`. Asks for what "
        "the options do not say.",
        epilog=_SETUP,
        **formatted,  # type: ignore[arg-type]
    )
    setup.add_argument(
        "--provider", metavar="NAME", help="openai, anthropic-messages, ollama-chat …, or demo for the built-in model"
    )
    setup.add_argument("--base-url", metavar="URL", help="the endpoint's address, if it is not the provider's own")
    setup.add_argument("--model", metavar="NAME", help="the model's name")
    setup.add_argument("--key-file", metavar="FILE", help="a file with the key; - reads it from stdin")
    setup.add_argument(
        "--gguf", metavar="FILE", help="a model file that `make run` serves by llama.cpp, and no endpoint"
    )
    setup.add_argument("--no-keyring", dest="keyring", action="store_false", help="keep the key in the file")
    setup.add_argument("--no-test", dest="test", action="store_false", help="ask the model nothing")
    setup.set_defaults(command="setup")
    judge = commands.add_parser(
        "judge",
        help="judge a client that you write: which rules of the protocol it breaks",
        description="Listen on 127.0.0.1, play scenarios of docs/protocol.md to the client that connects, and report "
        "which rules it breaks. Without --client, says what to do, one line each.",
        **formatted,  # type: ignore[arg-type]
    )
    judge.add_argument("--client", metavar="COMMAND", help="start the client so, with {url} for the address")
    judge.add_argument("--approve", default="y", metavar="LINE", help="what the client reads as an approval")
    judge.add_argument("--reject", default="n", metavar="LINE", help="what the client reads as a rejection")
    judge.add_argument("--edit", metavar="LINE", help="what the client reads as a call with other arguments")
    judge.add_argument("--port", type=int, default=0, help="the port to listen on; default: a free one")
    judge.add_argument(
        "--patience", type=float, default=10.0, metavar="SECONDS", help="how long the client may take; default: 10"
    )
    judge.add_argument(
        "--browser", action="store_true", help="the client has a browser's WebSocket, which hides HTTP statuses"
    )
    judge.set_defaults(command="judge")
    conformance = commands.add_parser(
        "conformance",
        help="judge a server: which rules of the protocol it breaks",
        description="Play the dialogues of docs/protocol.md to a server, in new sessions, and report which rules it "
        "breaks. Its model answers ten messages.",
        epilog=_CONFORMANCE,
        **formatted,  # type: ignore[arg-type]
    )
    conformance.add_argument("url", metavar="URL", help="its WebSocket, such as ws://localhost:8000/ws/{session_id}")
    conformance.add_argument(
        "--read", default="Read main.dart", metavar="TEXT", help="a message on which its model reads a file"
    )
    conformance.add_argument(
        "--write", default="Create test.py", metavar="TEXT", help="a message on which its model asks to write a file"
    )
    conformance.add_argument(
        "--patience", type=float, default=60.0, metavar="SECONDS", help="how long it may take; default: 60"
    )
    conformance.add_argument(
        "--insecure-token", action="store_true", help="send the token to any address, also unencrypted"
    )
    conformance.set_defaults(command="conformance")
    uninstall = commands.add_parser(
        "uninstall",
        help="remove what codelab keeps on this machine",
        description="List what codelab keeps on this machine outside of projects (settings, conversations, what /undo "
        "needs, keys in the keyring), and remove it if you agree.",
        **formatted,  # type: ignore[arg-type]
    )
    uninstall.add_argument("--yes", action="store_true", help="do not ask")
    uninstall.set_defaults(command="uninstall")
    return root
