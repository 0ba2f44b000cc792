"""How a function's process starts: what is done until the first event, and only in a function."""

import ast
import os
import sys
from pathlib import Path

from tests.cases import cases
from tests.processes import run

ROOT = Path(__file__).parents[1]
LAMBDA = {"AWS_LAMBDA_RUNTIME_API": "127.0.0.1:1"}
PLAIN = {"PROCESS_START": "plain"}


def told(program: str, **environment: str) -> list[str]:
    done = run(sys.executable, "-c", program, env={"PATH": os.environ["PATH"], **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


_COLLECTOR = """
import gc
usual = gc.get_threshold()
from codelab.process_start import begin_init
imported = gc.get_threshold()
begin_init()
during = gc.get_threshold()
from codelab.observability import begin
begin(request_id="r1")
print(imported == usual, during == usual, gc.get_threshold() == usual, gc.get_freeze_count() > 1_000)
"""


def test_the_garbage_collector_waits_for_the_first_event_in_lambda_only() -> None:
    assert told(_COLLECTOR, **LAMBDA) == ["True False True True"]
    assert told(_COLLECTOR) == ["True True True False"]
    assert told(_COLLECTOR, **LAMBDA, **PLAIN) == ["True True True False"]


_DATACLASSES = """
from codelab.process_start import begin_init, end_init
begin_init()
import copy, pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace

@dataclass(frozen=True, slots=True)
class Point:
    "A point."
    x: int
    names: list[str] = field(default_factory=list, compare=False)
    y: int = field(default=0, kw_only=True)

    def __post_init__(self):
        if self.x < 0:
            raise ValueError("less than 0")

@dataclass(frozen=True, slots=True)
class Named(Point):
    name: str = "p"

@dataclass(order=True)
class Size:
    width: int
    def __repr__(self):
        return "its own"

before = "x" in Point.__init__.__code__.co_varnames
point, named = Point(1, ["a"], y=2), Named(1, name="n")
print(point, named, Size(3), Point(2).names is Point(2).names)
print(point == Point(1, [], y=2), point == named, point != Point(2), hash(point) == hash(Point(1, y=2)))
print(Size(1) < Size(2) >= Size(2) > Size(1), sorted([Size(2), Size(1)])[0].width)
print(replace(point, x=5), copy.deepcopy(point), pickle.loads(pickle.dumps(named)))
for wrong in (lambda: setattr(point, "x", 2), lambda: delattr(named, "name"), lambda: Point(), lambda: Point(-1)):
    try:
        wrong()
    except (FrozenInstanceError, TypeError, ValueError) as error:
        print(type(error).__name__, error)
try:
    @dataclass(order=True)
    class Two:
        a: int
        def __lt__(self, other): ...
except TypeError as error:
    print(error)
match point:
    case Point(1, names):
        print(names)
print(Point.__init__.__qualname__, "x" in Point.__init__.__code__.co_varnames)
end_init()

@dataclass
class Late:
    a: int

print("a" in Late.__init__.__code__.co_varnames)
print(before)
"""


def test_methods_of_dataclasses_are_compiled_when_they_are_called_in_lambda_only() -> None:
    *lines, before = told(_DATACLASSES, **LAMBDA)
    *usual, compiled = told(_DATACLASSES, **LAMBDA, **PLAIN)
    assert lines == usual
    assert told(_DATACLASSES) == [*usual, compiled]
    assert len(usual) == 12
    assert (before != compiled) == (sys.version_info[:2] == (3, 13))


_ANOTHER_BUILDER = """
import dataclasses
from codelab.process_start import begin_init
if builder := getattr(dataclasses, "_FuncBuilder", None):
    made = builder.__init__
    def make(self, *args):
        made(self, *args)
        self.later = []
    builder.__init__ = make
begin_init()

@dataclasses.dataclass
class Point:
    x: int

print("x" in Point.__init__.__code__.co_varnames, Point(1))
"""


def test_where_python_writes_methods_otherwise_they_are_compiled_at_once() -> None:
    assert told(_ANOTHER_BUILDER, **LAMBDA) == ["True Point(x=1)"]


_TRACE = """
import ctypes, os
from codelab import trace_id
from codelab.process_start import begin_init
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
print(trace_id.current(), libc.getenv(b"_X_AMZN_TRACE_ID"))
begin_init()
print(trace_id.current(), libc.getenv(b"_X_AMZN_TRACE_ID"))
os.environ["OTHER"] = "told"
for n in range(3):
    os.environ["_X_AMZN_TRACE_ID"] = f"Root={n}"
print(trace_id.current(), os.environ["_X_AMZN_TRACE_ID"], libc.getenv(b"_X_AMZN_TRACE_ID"), libc.getenv(b"OTHER"))
del os.environ["_X_AMZN_TRACE_ID"]
print(repr(trace_id.current()))
"""


def test_a_function_keeps_the_traces_id_out_of_the_environment_of_c() -> None:
    """Lambda's runtime client sets the trace's id at each event; the C library would keep every value for ever."""
    lines = told(_TRACE, _X_AMZN_TRACE_ID="old")
    assert lines == ["old b'old'", "old None", "Root=2 Root=2 None b'told'", "''"]
    assert told(_TRACE, _X_AMZN_TRACE_ID="old", **PLAIN)[2] == "Root=2 Root=2 b'Root=2' b'told'"


_PYDANTIC = """
from codelab.process_start import begin_init, end_init, hide_pydantic_1
begin_init()
hide_pydantic_1()
try:
    import pydantic.v1
except ImportError:
    print("hidden")
end_init()
import pydantic.v1
print("there")
"""


def test_the_first_version_of_pydantic_is_hidden_until_the_first_event() -> None:
    assert told(_PYDANTIC) == ["hidden", "there"]
    assert told(_PYDANTIC, **PLAIN) == ["there"]


_CRYPTOGRAPHY = """
import sys
from codelab.process_start import import_pyjwt
jwt = import_pyjwt(with_keys={with_keys})
print("cryptography" in sys.modules)
import cryptography
"""


@cases(
    ("with_keys", "environment", "is_imported"),
    [(False, LAMBDA, False), (True, LAMBDA, True), (False, {}, True), (False, LAMBDA | PLAIN, True)],
)
def test_cryptography_is_imported_for_published_keys(
    with_keys: bool, environment: dict[str, str], is_imported: bool
) -> None:
    lines = told(_CRYPTOGRAPHY.format(with_keys=with_keys), **environment)
    assert lines == [str(is_imported)]


def test_another_way_to_start_is_refused() -> None:
    program = "from codelab.process_start import begin_init; begin_init()"
    done = run(sys.executable, "-c", program, env={"PATH": os.environ["PATH"], "PROCESS_START": "fast"})
    assert "PROCESS_START must be 'plain' or unset, not 'fast'" in done.stderr


@cases("name", sorted(path.parent.name for path in ROOT.glob("functions/*/handler.py")))
def test_a_function_begins_its_init_before_it_imports_what_it_is_made_of(name: str) -> None:
    body = ast.parse((ROOT / "functions" / name / "handler.py").read_text()).body
    imports = [place for place, it in enumerate(body) if isinstance(it, ast.ImportFrom) and _is_ours(it)]
    if not imports:
        assert name == "page"
        return
    first, *others = imports
    assert ast.unparse(body[first]).startswith("from codelab.process_start import begin_init")
    assert ast.unparse(body[first + 1]) == "begin_init()"
    assert others[0] > first + 1


def _is_ours(it: ast.ImportFrom) -> bool:
    return str(it.module).partition(".")[0] == "codelab"
