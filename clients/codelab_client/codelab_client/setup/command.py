"""The dialog of `codelab setup`, which asks only for what the options do not say."""

import asyncio
import difflib
import os
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_lowercase

from codelab_client.line_input import ask, ask_hidden
from codelab_client.safe_text import safe, safe_line
from codelab_client.setup import discovery, endpoint, gguf, model_file, probe
from codelab_client.setup.discovery import Candidate
from codelab_client.setup.errors import SetupError
from codelab_client.setup.model_file import Model, checked, checked_url
from codelab_client.setup.providers import DEMO, OPEN, PROVIDERS, Provider, checked_name, listed

#: Models that are shown at once.
_SHOWN = 24
_MOST_KEY_CHARS = 4_000


@dataclass(frozen=True)
class SetupOptions:
    """What the options say; None where they do not. key_file: `-` is stdin. gguf: a file that the checkout serves."""

    provider: str | None = None
    url: str | None = None
    model: str | None = None
    key_file: str | None = None
    gguf: str | None = None
    test: bool = True
    keyring: bool = True


async def set_up(request: SetupOptions) -> int:
    """Choose a model, ask it one question, and keep it. Returns the exit code. Raises SetupError: nothing changed."""
    try:
        return await _set_up(request)
    except asyncio.CancelledError:  # Ctrl-C at a question: nothing is awaited once something has changed
        sys.stderr.write("\nNothing was changed")
        raise


async def _set_up(request: SetupOptions) -> int:
    before = model_file.read_or_none()
    if request.gguf is not None:
        return await _set_up_file(request, before)
    candidate: Candidate | None = None
    if request.provider is not None:
        name = checked_name(request.provider)
    else:
        name, candidate = await _provider(
            before, [] if request.url else [*await discovery.servers_here(), *discovery.keys_here()]
        )
    if candidate is not None:
        request = replace(request, url=candidate.url)
    if name == DEMO:
        model_file.forget()
        _say("The demonstration model answers, also where `make run` runs already.")
        return 0
    provider = PROVIDERS[name]
    url = await _url(provider, request, before)
    if before is not None and (before.provider, before.url) != (name, url):
        before = None
    key = await _key(provider, url, request, before, candidate)
    model = Model(name, url, "", key)
    model_file.check_secrecy(model)
    model = Model(name, url, await _model(model, request, before), key)
    if request.test:
        model = await _tried(model)
    ring = model_file.keep(model, in_keyring=request.keyring)
    _say_where(model, ring)
    return 0


async def _set_up_file(request: SetupOptions, before: Model | None) -> int:
    """Have the local cloud serve a model file."""
    if request.provider or request.url or request.key_file:
        raise SetupError("With --gguf there is no other provider, address or key")
    assert request.gguf is not None
    model = gguf.model_of(request.gguf, request.model, before)
    checkout = await gguf.install()
    if request.test:
        async with gguf.served(model, checkout):
            model = await _tried(model)
    model_file.keep(replace(model, window=gguf.WINDOW), in_keyring=False)
    _say_where(model, "")
    return 0


async def _provider(before: Model | None, candidates: Sequence[Candidate]) -> tuple[str, Candidate | None]:
    """The name that the user chooses, and what was found here, if it is that."""
    if not _has_user():
        raise SetupError("Nobody can be asked for the provider: name it with --provider")
    letters = dict(zip(ascii_lowercase, candidates, strict=False))
    default = before.provider if before is not None and before.provider in PROVIDERS else "a" if letters else "openai"
    if letters:
        _say("Found here:")
        for letter, candidate in letters.items():
            _say(f"   {letter}  {safe_line(candidate.about, 72)}")
    if note := discovery.aws_note():
        _say(note)
    _say(f"Who answers?\n{listed()}")
    label = "Letter, number or name" if letters else "Number or name"
    while True:
        reply = await _asked(f"{label} [{default}]: ") or default
        if (pick := letters.get(reply.lower())) is not None:
            return pick.provider, pick
        try:
            return checked_name(reply), None
        except SetupError as error:
            _say(f"{error}")


async def _url(provider: Provider, request: SetupOptions, before: Model | None) -> str:
    if request.url is not None:
        return checked_url(request.url)
    if provider.url:
        return provider.url
    if not _has_user():
        raise SetupError(f"{provider.title} has no address of its own: give it with --base-url {provider.example}")
    default = before.url if before is not None and before.provider == provider.name else ""
    while True:
        reply = await _asked(f"Address, such as {provider.example}{f' [{default}]' if default else ''}: ")
        try:
            return checked_url(reply or default)
        except SetupError as error:
            _say(f"{error}")


async def _key(
    provider: Provider, url: str, request: SetupOptions, before: Model | None, candidate: Candidate | None
) -> str:
    """The key: of the file or of stdin, else of the environment, else of the user, else the one there is.

    A server that was found here has listed its models without one.
    """
    if request.key_file is not None:
        return checked(_of_file(request.key_file), "The key")
    host = Model(provider.name, url, "").host
    if candidate is not None:
        variable = candidate.key_variable
        return checked(os.environ[variable], f"The key in {variable}") if variable else ""
    variable_key = os.environ.get("LLM_API_KEY")
    if variable_key and (
        not _has_user() or await _yes(f"Send the key in LLM_API_KEY to {host}? [y/N] ", default=False)
    ):
        return checked(variable_key, "The key in LLM_API_KEY")
    variable = _key_variable(provider, url)
    if variable and _has_user() and await _yes(f"Send the key in {variable} to {host}? [Y/n] ", default=True):
        return checked(os.environ[variable], f"The key in {variable}")
    old = before.key if before is not None else ""
    if not _has_user():
        if old or not provider.needs_key:
            return old
        here = f'; to use the one in {variable}: LLM_API_KEY="${variable}" codelab setup …' if variable else ""
        raise SetupError(f"There is no key: give it with --key-file FILE (- reads stdin), or in LLM_API_KEY{here}")
    without = "Enter keeps the one you have" if old else "" if provider.needs_key else "Enter if it needs none"
    while True:
        hint = f"it is not shown; {without}" if without else "it is not shown"
        reply = (await _asked(f"API key for {host} ({hint}): ", hidden=True)).strip()
        if not reply and without:
            return old
        try:
            return checked(reply, "The key")
        except SetupError as error:
            _say(f"{error}")


def _key_variable(provider: Provider, url: str) -> str:
    """The variable with the provider's key, if this is the provider's own address; empty without one."""
    candidates = (key for key in discovery.keys_here() if (key.provider, key.url) == (provider.name, url))
    return next((candidate.key_variable for candidate in candidates), "")


def _of_file(path: str) -> str:
    if path == "-":
        return sys.stdin.readline(_MOST_KEY_CHARS + 2)
    try:
        file = Path(path).expanduser()
        if file.is_file() and file.stat().st_mode & 0o077:
            _say(f"Others can read {file}: `chmod 600` it, or delete it.")
        return file.read_text("utf-8")[: _MOST_KEY_CHARS + 2]
    except (OSError, ValueError) as error:
        raise SetupError(f"{path}: {getattr(error, 'strerror', None) or 'it is not a text'}") from None


async def _model(model: Model, request: SetupOptions, before: Model | None) -> str:
    if request.model is not None:
        return checked(request.model, "The model's name")
    if not _has_user():
        raise SetupError("Nobody can be asked for the model: name it with --model")
    try:
        names = await endpoint.models(model)
    except SetupError as error:
        _say(f"Its models are not known:\n  {error}")
        names = []
    default = before.name if before is not None else names[0] if len(names) == 1 else ""
    _show(names)
    while True:
        reply = await _asked(f"Model{f' [{default}]' if default else ''}: ") or default
        if not reply:
            continue
        try:
            name = checked(reply, "The model's name")
        except SetupError as error:
            _say(f"{error}")
            continue
        if not names or name in names or name == default:
            return name
        parts = [part for part in names if name.lower() in part.lower()]
        near = parts if len(parts) == 1 else difflib.get_close_matches(name, names, n=1, cutoff=0.75)
        if len(parts) > 1:
            _show(parts)
        elif near:
            if await _yes(f"Did you mean {safe_line(near[0])}? [Y/n] ", default=True):
                return near[0]
        elif await _yes(f"{model.host} does not list {safe_line(name)}. Use it anyway? [y/N] ", default=False):
            return name


def _show(names: list[str]) -> None:
    """Names in columns."""
    if not names:
        return
    labels = [safe_line(name, 60) for name in names[:_SHOWN]]
    width = max(map(len, labels)) + 2
    across = max(1, (shutil.get_terminal_size().columns - 2) // width)
    for first in range(0, len(labels), across):
        _say(f"  {''.join(f'{name:{width}}' for name in labels[first : first + across])}".rstrip())
    if len(names) > _SHOWN:
        _say(f"  … and {len(names) - _SHOWN} more: type a part of a name to see them")


async def _tried(model: Model) -> Model:
    """Ask the question, and find out how the model is asked best.

    Raises SetupError if there is no answer, and the user does not want to keep the model.
    """
    _say(f"Asking {safe_line(model.name)}: “{endpoint.QUESTION}”")
    start = time.monotonic()
    try:
        text = await endpoint.answer(model)
    except SetupError as error:
        if not _has_user():
            raise SetupError(f"{error}\nNothing was changed; --no-test keeps a model without asking it.") from None
        _say(f"{error}")
        if not await _yes("Keep these settings anyway? [y/N] ", default=False):
            raise SetupError("Nothing was changed") from None
        return model
    _say(f"It answers: “{text}” ({time.monotonic() - start:.1f} s)" if text else "It answers, without a text.")
    return await _probed(model) if model.provider in OPEN else model


async def _probed(model: Model) -> Model:
    """The model with the strategy that it can do."""
    _say("Trying what it can do: three requests, on a slow machine minutes (Ctrl-C ends it) …")
    try:
        abilities = await probe.abilities_of(model)
    except SetupError as error:
        _say(f"{error}\nWhat it can do is not known, so it is asked as models of {model.provider} usually are.")
        return model
    _say(f"{abilities.sentence}.")
    if abilities.strategy:
        _say(f"So it is asked by the strategy `{abilities.strategy}` (LLM_CAPABILITIES in the file).")
    elif not abilities.copies_text:
        _say("A model that changes what it copies often fails to edit files.")
    return replace(model, strategy=abilities.strategy)


def _say_where(model: Model, ring: str) -> None:
    file = shlex.quote(str(model_file.file()))
    _say(f"\n{safe_line(model.name)} of {model.host} is set up, in\n  {file}")
    if ring:
        _say(f"The key is in the keyring ({safe_line(ring)}).")
    elif model.key:
        _say("The key is in this file, not encrypted; only you can read it.")
    _say(
        "`make run` uses it from the next message on, also if it runs already, and so\n"
        "does the local cloud that `codelab` starts."
        + ("" if model.gguf else f" For a stack:\n  make deploy MODEL_FILE={file}")
    )


def _has_user() -> bool:
    return sys.stdin.isatty()


async def _yes(question: str, *, default: bool) -> bool:
    answer = (await _asked(question)).lower()
    return default if not answer else answer in ("y", "yes")


async def _asked(question: str, *, hidden: bool = False) -> str:
    """A line of the user. Raises SetupError if there are no more."""
    line = await (ask_hidden(question) if hidden else ask(safe(question)))
    if not line:
        raise SetupError("Nothing was changed: the input has ended")
    return line.strip()


def _say(text: str) -> None:
    sys.stderr.write(f"{safe(text)}\n")
