"""How a function's process starts: unusual means by which it is faster and stays small. Nothing happens at an import.

`PROCESS_START=plain` in a function's environment switches all of these means off. The gains are of the processor time
of an init: medians of 15 starts with and without, in turns (`benchmarks/bench_first_conversation.py`).
"""

import dataclasses
import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

#: More objects than any init makes.
_ALL_OF_AN_INIT = 200_000
_TRACE_ID = b"_X_AMZN_TRACE_ID"
#: What `dataclasses._FuncBuilder` keeps in Python 3.13.
_OF_A_BUILDER = {"names", "src", "globals", "locals", "overwrite_errors", "unconditional_adds"}

#: What the end of the init undoes.
_undo: list[Callable[[], object]] = []


def begin_init() -> None:
    """The first thing that a function does, before it imports what it is made of.

    If settings are kept elsewhere (`SETTINGS_SECRET_ARN`), the environment has them from then on, but for those that it
    had before. Raises ConfigurationError, AwsError.
    """
    if not _is_plain():
        _keep_trace_id_out_of_c()
        _delay_garbage_collection()
        _compile_methods_when_called()
    if arn := os.environ.get("SETTINGS_SECRET_ARN"):
        from codelab.stored_settings import read_stored_settings

        for variable, value in read_stored_settings(arn).items():
            os.environ[variable] = os.environ.get(variable) or value


def end_init() -> None:
    """The first event begins, and what was only good for the init ends. Every event may call it."""
    while _undo:
        _undo.pop()()


def hide_pydantic_1() -> None:
    """Make `import pydantic.v1` fail until the end of the init. Call it before routes are imported.

    FastAPI checks for every type in a route whether it is a model of Pydantic 1. For that it imports Pydantic 1. If the
    import fails, FastAPI assumes that it is not. Gain: 4 % of `rest_api` (391 ms instead of 410).
    """
    hidden_modules = ExitStack()
    hidden_modules.enter_context(_hidden("pydantic.v1"))
    _undo.append(hidden_modules.close)


def import_pyjwt(*, with_keys: bool) -> ModuleType:
    """The module `jwt`. Call it at init. `with_keys`: for published keys, which need `cryptography`.

    Without `cryptography` PyJWT has only the algorithms of shared secrets, and needs no more in Lambda then. Gain: 18 %
    of `authorize` (86 ms instead of 105), 5 % of `rest_api`.
    """
    if with_keys or "AWS_LAMBDA_RUNTIME_API" not in os.environ:
        return import_module("jwt")
    with _hidden("cryptography"):
        return import_module("jwt")


def _delay_garbage_collection() -> None:
    """Collect nothing until `end_init`. Only in Lambda, where an init comes before the first event.

    Nearly everything that an init makes is kept, and would be looked through again and again. Gain: 4 % of `authorize`
    (86 ms instead of 90), 6 % of `connect`, `user_message`, `llm_request` (254 ms instead of 270) and `rest_api`.
    """
    if "AWS_LAMBDA_RUNTIME_API" not in os.environ:
        return
    threshold = gc.get_threshold()

    def collect_as_usual() -> None:
        gc.freeze()  # what the init made is not looked through
        gc.set_threshold(*threshold)

    gc.set_threshold(_ALL_OF_AN_INIT)
    _undo.append(collect_as_usual)


def _compile_methods_when_called() -> None:
    """Let a dataclass of the init compile a method when it is called first. Only in Lambda, and in Python 3.13.

    `dataclass` writes `__init__`, `__eq__`, `__repr__` and others as text and compiles it at once, which is four fifths
    of a class's time. An init makes up to 150 classes, and most of their methods are never called. Gain: 16 % of
    `connect` (209 ms instead of 248), `user_message` (223 of 267) and `llm_request` (279 of 322). A fifth of it is
    spent later, in the first event.
    """
    builder: Any = getattr(dataclasses, "_FuncBuilder", None)
    if "AWS_LAMBDA_RUNTIME_API" not in os.environ or builder is None or sys.version_info[:2] != (3, 13):
        return
    compile_now = builder.add_fns_to_class

    def add_uncompiled(self: Any, owner: type) -> None:
        # Another Python 3.13 may keep other things. It may also have to refuse the class.
        if vars(self).keys() != _OF_A_BUILDER or self.overwrite_errors.keys() & vars(owner).keys():
            compile_now(self, owner)
            return
        for name, text in zip(self.names, self.src, strict=True):
            if name not in vars(owner) or self.unconditional_adds.get(name):
                setattr(owner, name, _uncompiled(name, text, self.globals, self.locals, owner.__qualname__))

    builder.add_fns_to_class = add_uncompiled
    _undo.append(lambda: setattr(builder, "add_fns_to_class", compile_now))


def _uncompiled(
    name: str, text: str, namespace: dict[str, Any], values: dict[str, Any], class_name: str
) -> Callable[..., Any]:
    """A method that compiles the text when it is called, and gives its place to the result.

    values: what the text needs beside its module's names. With `slots`, the class is not the one that was decorated.
    """

    def placeholder(self: Any, *args: Any, **kwargs: Any) -> Any:
        scope: dict[str, Any] = {}
        exec(f"def make({','.join(values)}):\n{text}\n return {name}", namespace, scope)
        method = scope["make"](**values)
        method.__qualname__ = f"{class_name}.{name}"
        for owner in type(self).__mro__:
            if vars(owner).get(name) is placeholder:
                setattr(owner, name, method)
        return method(self, *args, **kwargs)

    return placeholder


@cache
def _keep_trace_id_out_of_c() -> None:
    """Let only `os.environ` have the trace's id. A process that this one starts has it if it is given `os.environ`.

    Lambda's runtime client sets it at each event, and the C library never frees a value that its environment has had.
    These strings lie in the way of what is allocated and freed around them. Gain: 530 bytes an event, for as long as
    the process lives, which is 53 MB after 100,000 events.
    """
    putenv = os.putenv

    def put(variable: bytes, value: bytes) -> None:
        if variable != _TRACE_ID:
            putenv(variable, value)

    os.putenv = put  # type: ignore[assignment]
    os.unsetenv(_TRACE_ID)


@contextmanager
def _hidden(module: str) -> Iterator[None]:
    """Have the module look as if it were not installed, unless it is imported already."""
    if _is_plain() or module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]


def _is_plain() -> bool:
    """Raises ValueError for another value, which would be a mistake."""
    start = os.environ.get("PROCESS_START", "")
    if start not in ("", "plain"):
        raise ValueError(f"PROCESS_START must be 'plain' or unset, not {start!r}")
    return start == "plain"
