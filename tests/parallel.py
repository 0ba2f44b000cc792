"""`pytest --processes=4`: the tests are collected once, and run in processes that are forked from this one.

So what all tests import is imported, rewritten and collected once. Each process runs a group of tests, reports what
happened, and asks for the next one when it begins its last test. A process that died is told as a failed test, and
another one runs the rest of its group.
"""

import atexit
import gc
import os
import pickle
import random
import signal
import socket
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

import pytest
from codelab_local.host.processes import die_with_parent

Group = list[int]  # places in `session.items`

#: How long a process that is interrupted may write nothing.
_LONGEST_END_S = 10.0


class Parallel:
    """The plugin. `group_of` names the group that a test belongs to."""

    def __init__(self, processes: int, group_of: Callable[[pytest.Item], str]) -> None:
        self._processes, self._group_of = processes, group_of

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.config.option.collectonly or session.testsfailed or not session.items:
            return None  # nothing is run
        groups: dict[str, Group] = {}
        for place, item in enumerate(session.items):
            groups.setdefault(self._group_of(item), []).append(place)
        if (reporter := session.config.pluginmanager.get_plugin("terminalreporter")) is not None:
            reporter.showfspath = False  # tests of several files run at once
        _Run(session, deque(groups.values())).all(min(self._processes, len(groups)))
        return True


class _Process:
    """A process that runs tests, as this one sees it."""

    def __init__(self, number: int, pid: int, connection: Connection) -> None:
        self.number, self.pid, self.connection = number, pid, connection
        self.left: Group = []
        self.running: int | None = None


class _Run:
    def __init__(self, session: pytest.Session, groups: deque[Group]) -> None:
        self._session, self._groups = session, groups
        self._running: dict[Connection, _Process] = {}

    def all(self, processes: int) -> None:
        # Made here, because the first to ask for it makes it; each process has a folder in it.
        self._session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        gc.collect()
        gc.freeze()
        try:
            for number in range(processes):
                self._fork(number)
            while self._running:
                for connection in wait(list(self._running)):
                    self._hear(self._running[connection])  # type: ignore[index]
        finally:
            self._stop()

    def _fork(self, number: int) -> None:
        assert threading.active_count() == 1, "a thread was started as tests were collected: a fork would lack it"
        near, far = socket.socketpair()
        ours, theirs = Connection(near.detach()), Connection(far.detach())
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        if (pid := os.fork()) == 0:
            die_with_parent(parent)
            for connection in (ours, *self._running):
                connection.close()
            _run_and_exit(self._session, number, theirs)
        theirs.close()
        self._running[ours] = _Process(number, pid, ours)

    def _hear(self, process: _Process) -> None:
        try:
            kind, value = process.connection.recv()
        except (EOFError, OSError):
            self._ended(process)
            return
        if kind == "next":
            group = self._groups.popleft() if self._groups else []
            process.left += group
            with suppress(OSError):
                process.connection.send(group)
        elif kind == "begins":
            process.left.remove(value)
            process.running = value
        elif kind == "ended":
            process.running = None
            for report in value:
                self._report(report)
        else:
            self._session.config.hook.pytest_warning_recorded.call_historic(kwargs=value)

    def _report(self, data: Any) -> None:
        hook = self._session.config.hook
        report = hook.pytest_report_from_serializable(config=self._session.config, data=data)
        hook.pytest_runtest_logreport(report=report)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)

    def _ended(self, process: _Process) -> None:
        del self._running[process.connection]
        process.connection.close()
        code = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
        if code == 0 and process.running is None and not process.left:
            return
        if process.running is not None:
            item = self._session.items[process.running]
            how = f"the process that ran it ended with {signal.Signals(-code).name if code < 0 else code}"
            report = pytest.TestReport(item.nodeid, item.location, {}, "failed", how, "call")
            self._report(self._serializable(report))
        elif not process.left:
            raise RuntimeError(f"a process that ran tests ended with {code} after its last one")
        if process.left:
            self._groups.appendleft(process.left)
        self._fork(process.number)

    def _serializable(self, report: pytest.TestReport) -> Any:
        config = self._session.config
        return config.hook.pytest_report_to_serializable(config=config, report=report)

    def _stop(self) -> None:
        """Have those that run still, when Ctrl-C was pressed, say, end what their tests share."""
        for process in self._running.values():
            os.kill(process.pid, signal.SIGINT)
        for process in self._running.values():
            with suppress(EOFError, OSError):
                while process.connection.poll(_LONGEST_END_S):
                    process.connection.recv()
            os.kill(process.pid, signal.SIGKILL)  # It is there, as a zombie at least, until it is waited for.
            os.waitpid(process.pid, 0)
            process.connection.close()


# In a forked process.


class _Reports:
    """Collects what is reported of a test, for the first process, and sends it warnings as they come."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config, self._connection = config, connection
        self._reports: list[Any] = []
        self._tells_warnings = False
        config.pluginmanager.register(self)  # which is told of all warnings before
        self._tells_warnings = True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def taken(self) -> list[Any]:
        """What was reported since it was last asked for."""
        taken, self._reports = self._reports, []
        return taken

    def pytest_warning_recorded(self, warning_message: Any, when: str, nodeid: str, location: Any) -> None:
        if not self._tells_warnings:
            return
        try:
            pickle.dumps(warning_message)
        except Exception:  # of any kind: it is the text that is wanted
            warning_message.message = warning_message.category(str(warning_message.message))
            warning_message.source = None
        told = {"warning_message": warning_message, "when": when, "nodeid": nodeid, "location": location}
        self._connection.send(("warning", told))


def _run_and_exit(session: pytest.Session, number: int, connection: Connection) -> NoReturn:
    status = 1
    try:
        atexit._clear()
        random.seed()
        signal.signal(signal.SIGINT, _interrupt_once)
        reports = _begin(session.config, number, connection)
        _run(session, connection, reports)
        status = 0
    except KeyboardInterrupt:  # which the first process tells
        with suppress(BaseException):
            session._setupstate.teardown_exact(None)
    except BaseException:
        with open(2, "w", closefd=False) as stderr:
            traceback.print_exc(file=stderr)
    finally:
        with suppress(BaseException):
            atexit._run_exitfuncs()
        os._exit(status)


def _interrupt_once(*_: object) -> None:
    """Ctrl-C comes from the terminal and from the first process, and what follows is not to be interrupted."""
    signal.signal(signal.SIGINT, lambda *_: None)
    raise KeyboardInterrupt


def _begin(config: pytest.Config, number: int, connection: Connection) -> _Reports:
    plugins = config.pluginmanager
    if (reporter := plugins.get_plugin("terminalreporter")) is not None:
        plugins.unregister(reporter)
    reports = _Reports(config, connection)
    # The files that output is captured in would be shared.
    capture: Any = plugins.get_plugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    factory: Any = config._tmp_path_factory  # type: ignore[attr-defined]
    folder = Path(factory.getbasetemp(), f"process-{number}")
    folder.mkdir(exist_ok=True)  # It is there if a process died.
    factory._basetemp = folder
    return reports


def _run(session: pytest.Session, connection: Connection, reports: _Reports) -> None:
    """Run what is sent. A test is told which one is next, because what both use stays."""

    def following() -> Sequence[int]:
        connection.send(("next", None))
        group: Group = connection.recv()
        return group

    waiting = deque(following())
    while waiting:
        place = waiting.popleft()
        connection.send(("begins", place))
        if not waiting:
            waiting.extend(following())
        item = session.items[place]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=session.items[waiting[0]] if waiting else None)
        connection.send(("ended", reports.taken()))
