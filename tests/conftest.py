"""The system as `make run` starts it, once with the demonstration model and once with a scripted one; schemas."""

import gc
import gzip
import inspect
import itertools
import json
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from botocore.hooks import EventAliaser
from botocore.loaders import create_loader
from codelab_local import LocalCloud
from hypothesis import HealthCheck, settings

from tests.fakes.ide.ide import Ide
from tests.fakes.model.server import ScriptedModel
from tests.fork_server import CLIENTS, CLOUDS
from tests.parallel import Parallel
from tests.waiting import run

TESTS = Path(__file__).parent
TEMPLATE = TESTS.parent / "template.yaml"

#: One process runs a whole file. If one of these were the last to begin, the other processes would wait for it.
LONGEST = (
    "docs/test_tutorials.py",
    "client/test_terminal.py",
    "client/test_terminal_keys.py",
    "client/test_terminal_commands.py",
    "rest/test_stream.py",
    "conversations/test_races.py",
    "page/test_conversation.py",
    "conversations/test_reconnects.py",
    "client/test_exec.py",
    "local/test_lambda.py",
    "local/test_state_dir.py",
    "faults/test_fault_sweep.py",
    "client/test_kills.py",
    "local/test_start_and_stop.py",
    "typescript/test_vscode.py",
    "client/test_tokens.py",
    "conversations/test_identity.py",
    "conversations/test_reference_client.py",
    "conversations/test_kills.py",
    "typescript/test_package.py",
    "typescript/test_storm.py",
    "security/test_browser.py",
    "security/test_cloud_view.py",
    "security/test_lost_updates.py",
    "security/test_origins.py",
    "security/test_storm.py",
    "security/test_undo.py",
    "turns/test_rules.py",
    "functions/test_prefix_cache.py",
    "functions/test_compaction.py",
    "turns/test_interleavings.py",
    "functions/test_quotas.py",
    "functions/test_rest_api.py",
    "infra/test_house_rules.py",
    "infra/test_stack.py",
    "rest/test_deletion.py",
    "protocol/conformance/test_frames.py",
    "llm/test_codec.py",
    "llm/test_codec_oracles.py",
)

#: Folders whose tests share a cloud or a browser of their own.
OWN_CLOUD = ("gateway", "local", "page")

#: What tokens of `guarded_cloud` say, and what signs them and those of `limited_cloud`.
CLAIMS = {"AUTH_MODE": "jwt", "JWT_ISSUER": "us", "JWT_AUDIENCE": "ide"}
SECRET = "a secret that is long enough for the purpose"

# The same examples in every run, however slow the machine is: no run fails by chance. `make test-deep` asks for "many".
settings.register_profile(
    "few", max_examples=30, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("many", settings.get_profile("few"), max_examples=300)
settings.load_profile("few")

#: As many are made before the garbage collector looks at them; usually 2,000.
_NEW_OBJECTS = 50_000

#: Where temporary files are, if it suits: tests make and delete thousands, and an ext4 without a journal, as virtual
#: machines have it, looks at each that went lately before it makes another one (7 % of `make test`). Bytes that must be
#: free; `make test` uses 33 MB at most.
_MEMORY = Path("/dev/shm")
_ROOM = 2 << 30

_sessions = (f"talk_{n}" for n in itertools.count(1))

Open = Callable[..., Ide]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", type=int, default=1, help="run the tests in so many processes")


def pytest_configure(config: pytest.Config) -> None:
    """Let Ctrl-C reach the programs that tests start, also where a shell began the tests in the background.

    Such a shell has SIGINT ignored, and programs pass that on to those that they start.
    Local clouds are forked from a process that has imported what they import.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if "TMPDIR" not in os.environ and _suits_tests(_MEMORY):
        os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)
    LocalCloud.spawn = CLOUDS.spawn
    if (processes := config.getoption("--processes")) > 1:
        config.pluginmanager.register(Parallel(processes, group_of))
        for server in (CLOUDS, CLIENTS):
            server.start()  # It imports while the tests are collected.


def _suits_tests(folder: Path) -> bool:
    """Whether temporary files may be there: it has room, and what is there may be executed (not so in a container)."""
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return False
    filesystem = os.statvfs(folder)
    return filesystem.f_bavail * filesystem.f_frsize >= _ROOM and not filesystem.f_flag & os.ST_NOEXEC


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files."""
    places = {TESTS / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """All tests, and what they import, stay until the end: the garbage collector need not look at them.

    It looks at all else whenever a quarter has been added, which after that would be after each few tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(_NEW_OBJECTS)
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """pytest collects five times at its end, to see what fails as it is deleted: the first one finds it."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine, in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = inspect.signature(pyfuncitem.obj).parameters
    run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in arguments}))
    return True


def group_of(item: pytest.Item) -> str:
    """What one process runs: a file, or all files that use the same special cloud, so that no other starts one too."""
    file = item.path
    return special_cloud(file) or (file.parent.name if file.parent.name in OWN_CLOUD else str(file))


@cache
def special_cloud(file: Path) -> str | None:
    """The fixture that the file, or what its folder's tests share, names."""
    texts = [path.read_text("utf-8") for path in (file, file.with_name("conftest.py")) if path.exists()]
    special = ("demo_cloud", "guarded_cloud", "limited_cloud")
    return next((name for name in special if any(name in text for text in texts)), None)


def opener(cloud: LocalCloud) -> Iterator[Open]:
    """A function that opens connections, to a new session unless one is named, and closes them after the test."""
    opened: list[Ide] = []

    def open_ide(session: str | None = None, *, extensions: bool = False, **query: Any) -> Ide:
        if extensions:
            query["extensions"] = 1
        options = query.pop("options", {})
        opened.append(Ide(cloud.url(session or next(_sessions), **query), **options))
        return opened[-1]

    yield open_ide
    for ide in opened:
        ide.socket.close()


@pytest.fixture(scope="session", autouse=True)
def certificates_of_httpx() -> Iterator[None]:
    """Have httpx read its certificates once: each of a test's clients would do so, which takes 50 ms."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("httpx._transports.default.create_ssl_context", cache(httpx.create_ssl_context))
        yield


@pytest.fixture(scope="session", autouse=True)
def knowledge_of_botocore() -> Iterator[None]:
    """Have sessions of boto3 share what they read of services, which is megabytes of JSON, and clients what they work
    out of the names of events."""
    loader, copied = cache(create_loader), EventAliaser.__copy__

    def shared(path: str | None = None) -> Any:
        found = loader(path)
        found.search_paths[:] = dict.fromkeys(found.search_paths)  # Each session of boto3 adds its own.
        return found

    def with_the_same_names(aliaser: Any) -> Any:
        made: Any = copied(aliaser)
        made._alias_name_cache = aliaser._alias_name_cache
        return made

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("botocore.session.create_loader", shared)
        patched.setattr(EventAliaser, "__copy__", with_the_same_names)
        yield


@pytest.fixture(scope="session")
def demo_cloud() -> Iterator[LocalCloud]:
    # An empty variable counts as unset.
    with LocalCloud(TEMPLATE, environment={"DEMO_TOKEN_DELAY_MS": "0", "LLM_BASE_URL": ""}) as running:
        yield running


@pytest.fixture(scope="session")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as running:
        yield running


@pytest.fixture(scope="session")
def cloud(model: ScriptedModel) -> Iterator[LocalCloud]:
    with LocalCloud(TEMPLATE, environment=model.environment) as running:
        yield running


@pytest.fixture(scope="session")
def guarded_cloud(model: ScriptedModel) -> Iterator[LocalCloud]:
    """The system with real tokens, of a certain issuer and for a certain audience."""
    with LocalCloud(TEMPLATE, environment={**model.environment, **CLAIMS, "JWT_SECRET": SECRET}) as running:
        yield running


@pytest.fixture(scope="session")
def limited_cloud(model: ScriptedModel) -> Iterator[LocalCloud]:
    """The system with real tokens and low limits per user: each test has users of its own."""
    limits = {"CONNECTIONS_PER_MINUTE": "8", "OPEN_TURNS": "1", "PLAN_LIMITS": '{"small": {"requests_per_minute": 1}}'}
    environment = {**model.environment, "AUTH_MODE": "jwt", "JWT_SECRET": SECRET, **limits}
    with LocalCloud(TEMPLATE, environment=environment) as running:
        yield running


@pytest.fixture
def ide(cloud: LocalCloud) -> Iterator[Open]:
    """Opens connections to the system with the scripted model."""
    yield from opener(cloud)


def _data() -> Path | None:
    folder = os.environ.get("CODELAB_DATA")
    return Path(folder) if folder and Path(folder).is_dir() else None


@pytest.fixture(scope="session")
def data() -> Path | None:
    """The folder with thousands of real schemas, which are not part of the project; None where it is not at hand."""
    return _data()


def _corpora() -> list[Any]:
    whole = pytest.param("real", marks=pytest.mark.deep)
    return ["ours", "some real", whole] if _data() else ["ours"]


@pytest.fixture(scope="session", params=_corpora())
def rows(request: pytest.FixtureRequest, data: Path | None) -> list[dict[str, Any]]:
    """Schemas with instances: {"id", "schema", "valid", "invalid"}. Ours use together what real ones do."""
    if request.param == "ours":
        ours = TESTS / "llm" / "corpus" / "schemas.jsonl"
        return [json.loads(line) for line in ours.read_text(encoding="utf-8").splitlines()]
    assert data is not None
    step = 5 if request.param == "some real" else 1
    with gzip.open(data / "jsb_tools_like.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in itertools.islice(lines, 0, None, step)]
