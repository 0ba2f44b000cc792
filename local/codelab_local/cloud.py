"""Starts and stops the local cloud's parts, in order."""

import asyncio
import contextlib
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from codelab_local.emulator.aws_api import AwsError
from codelab_local.emulator.object_store import PREFIX, ObjectStore
from codelab_local.emulator.server import Emulator
from codelab_local.functions.environment import aws_clients, function_environment, shared_imports
from codelab_local.functions.event_journal import EventJournal
from codelab_local.functions.internal_api import InternalApi
from codelab_local.functions.lambda_service import LambdaService
from codelab_local.functions.log import FunctionLog
from codelab_local.functions.pool import Pool
from codelab_local.functions.schedules import Schedules
from codelab_local.functions.source_watch import SourceWatch
from codelab_local.functions.web_functions import WebFunction, is_web_function
from codelab_local.functions.zygotes import ColdStarts, InitFailed, Processes, Root, WorkerConfig, Zygote
from codelab_local.gateway.connections import Connections
from codelab_local.gateway.events import EventBuilder
from codelab_local.gateway.health import Health
from codelab_local.gateway.http_api import HttpGateway
from codelab_local.gateway.http_events import HttpEventBuilder
from codelab_local.gateway.paths import PathForms
from codelab_local.gateway.public_port import PublicPort
from codelab_local.gateway.websocket_api import Gateway
from codelab_local.host.errors import StartError
from codelab_local.host.notices import notice
from codelab_local.host.processes import bound_socket, kill_group, spawn
from codelab_local.http.origin_policy import OriginPolicy
from codelab_local.http.protocol import Answer, Application, Request, Response
from codelab_local.model_file.model_server import ModelServer, ServedFile
from codelab_local.page.build import PageBuild
from codelab_local.page.files import Page
from codelab_local.settings.hints import hints
from codelab_local.settings.settings import Model, Settings
from codelab_local.template.deployment import Deployment, Function, deploy, processed_template
from codelab_local.template.expanded_templates import ExpandedTemplate
from codelab_local.template.sam_template import Template, read_template

if TYPE_CHECKING:
    from codelab_local.cloud_view.recorder import Recorder
    from codelab_local.cloud_view.view import CloudView

REAP_INTERVAL = 2.0


class Cloud:
    """A local cloud. Call `start` and `stop` from the main thread's event loop, and `stop` in any case."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = Path(tempfile.mkdtemp(prefix="codelab-local-"))
        self._emulator = Emulator(self._folder, settings.region, settings.state_dir, plain=settings.plain_emulator)
        self._root: Root | None = None
        self._internal = InternalApi()
        self._public = PublicPort()
        self._gateway: Gateway | None = None
        self._logs: dict[str, FunctionLog] = {}
        self._pools: dict[str, Pool] = {}
        self._web: dict[str, WebFunction] = {}
        self._lambdas = LambdaService(self._pools, settings.retry_minute)
        self._schedules: Schedules | None = None
        self._watch: SourceWatch | None = None
        self._model: subprocess.Popen[bytes] | None = None
        self._model_port = 0
        self._model_server = ModelServer(settings.template.parent)
        self._reaper: asyncio.Task[None] | None = None
        self._asking: asyncio.Task[None] | None = None
        self._page_build = PageBuild(settings.build_page)
        self._model_url: str | None = None
        self._model_variables: dict[str, str] = {}
        self._trace_variables: dict[str, str] = {}
        self._health: Health | None = None
        self._deployment: Deployment | None = None
        self._recorder: Recorder | None = None
        self._view: CloudView | None = None
        self.failure = asyncio.Event()
        self.port = 0
        self.first_path = ""
        self._stage = ""

    @property
    def url(self) -> str:
        """The address for clients, with the path's variables in braces."""
        return f"ws://{_in_url(self._settings.host)}:{self.port}{self.first_path}"

    @property
    def address(self) -> str:
        """Host and port for clients on this machine."""
        return f"{self._reachable_host}:{self.port}"

    @property
    def _reachable_host(self) -> str:
        """HOST in URLs: the loopback address in place of the address for all interfaces."""
        return _in_url({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._settings.host, self._settings.host))

    async def start(self) -> None:
        """Start everything, in parallel and the slowest parts first. Raises :class:`StartError`."""
        settings = self._settings
        template = read_template(settings.template, self._folder / "inline")
        self.port = await self._public.bind(settings.host, settings.port)
        _raise_file_limit()
        if not settings.cold:
            self._root = Root()
            self._root.start()
        expanded = ExpandedTemplate(template.body, settings.region)
        snapshot = expanded.read()
        self._emulator.start(template.services, expands=snapshot is None)
        if settings.state_dir is not None:
            self._lambdas.journal = EventJournal(settings.state_dir / "events.jsonl")
        self._choose_model()
        if self._root is not None:
            folders = {source.folder for source in template.sources.values()}
            layers = {layer for source in template.sources.values() for layer in source.layers}
            modules = shared_imports(folders, layers, settings.preload)
            self._root.preload(modules, aws_clients(folders | layers), sorted(map(str, layers)))
        if settings.inspect:
            await self._start_view()
        await self._internal.start()
        self._internal.lambdas = self._lambdas
        if snapshot is not None:
            template = replace(template, body=snapshot)
        to_keep = expanded if snapshot is None else None
        deployment = self._deployment = await asyncio.to_thread(self._deploy, template, to_keep)
        await self._start_functions(deployment)
        await self._start_gateway(deployment)
        self._lambdas.resume()
        self._schedules = Schedules(deployment, self._lambdas, settings.schedule_minute)
        self._schedules.start()
        if settings.watch:
            self._watch = SourceWatch([*self._pools.values(), *self._web.values()])
            self._watch.start()
        self._reaper = asyncio.get_running_loop().create_task(self._reap())

    @property
    def view(self) -> str | None:
        """The address of the view of the running cloud, with its secret. None without INSPECT."""
        return None if self._view is None else self._view.address

    @property
    def hints(self) -> list[str]:
        """What looks wrong in the environment, once it has started."""
        assert self._deployment is not None
        declared = {name for function in self._deployment.functions for name in function.environment}
        variables = {**self._settings.caller, **self._settings.overrides}
        is_demonstration = bool(self._model_variables)
        known_names = declared | self._settings.variable_names
        return [*hints(variables, known_names, self._settings.model, demo_model=is_demonstration)]

    def use_variables(self, caller: Mapping[str, str]) -> None:
        """Give the functions other variables of the caller: whatever runs goes on with the old ones.

        Everything else that `caller` could set stays as it was at the start. Raises :class:`StartError`, and then
        they keep the old ones.
        """
        assert self._deployment is not None
        before = self._settings
        self._settings = replace(before, caller=dict(caller))
        try:
            self._choose_model()
        except StartError:
            self._settings = before
            raise
        for function in self._deployment.functions:
            if (web := self._web.get(function.source.name)) is not None:
                web.environment = self._config(function, self._deployment).environment
                web.change()
            else:
                self._pools[function.name].reload()
        self._look_at_model()

    def build_page(self) -> None:
        """Begin to build the project's web page: after the start, which it would slow down."""
        self._page_build.start()

    async def stop(self) -> None:
        """Stop every process, close every port and remove the temporary folder.

        Takes bounded time, and is safe at any stage of a start.
        """
        for task in (self._reaper, self._asking):
            if task is not None:
                task.cancel()
        if self._schedules is not None:
            self._schedules.stop()
        await self._page_build.stop()
        await self._public.stop(2.0)
        if self._gateway is not None:
            # The kept state should not contain connections of this run.
            await self._gateway.stop(1.0 if self._settings.state_dir is not None else 0.0)
        self._lambdas.close()
        if self._watch is not None:
            await self._watch.stop()
        for pool in self._pools.values():
            pool.close()
        for web in self._web.values():
            web.close()
        if self._root is not None:
            self._root.stop()
        self._internal.stop()
        if self._view is not None:
            self._view.stop()
        for log in self._logs.values():
            log.close()
        if self._model is not None:
            kill_group(self._model)
        self._model_server.stop()
        self._emulator.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def describe(self) -> dict[str, Any]:
        """Addresses and keys for tests."""
        return {
            "port": self.port,
            "path": self.first_path,
            "stage": self._stage,
            "region": self._settings.region,
            "emulator": self._emulator.url,
            "internal": self._internal.url,
            "access_key_id": self._emulator.credentials.key_id,
            "secret_access_key": self._emulator.credentials.secret,
            "pid": os.getpid(),
            "folder": str(self._folder),
            "view": self.view,
        }

    # The steps.

    def _choose_model(self) -> None:
        """Take the model that is set, else the demonstration model if it may answer, which is then started.

        If a file of the model is set, its server is started, too, and that of another one ends.
        """
        settings, model = self._settings, self._settings.model
        if model is None:
            return
        variables = {**settings.caller, **settings.overrides}
        url = variables.get(model.url)
        if url:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise StartError(f"{model.url}={url} is not a valid address: write it like https://host/v1")
        self._model_server.serve(ServedFile.of(variables, model))
        self._model_variables = {} if url or not model.demo else self._demonstration(model)
        self._model_url = url or self._model_variables.get(model.url)

    def _demonstration(self, model: Model) -> dict[str, str]:
        """The variables of functions that ask the demonstration model, which is started unless it runs."""
        if self._model is None:
            environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
            environment["TMPDIR"] = str(self._folder)
            with bound_socket() as bound:
                fd = bound.fileno()
                self._model = spawn(
                    "codelab_local.demo_model", "--fd", str(fd), environment=environment, pass_fds=(fd,)
                )
                self._model_port = bound.getsockname()[1]
        url = f"http://127.0.0.1:{self._model_port}/v1"
        return {model.url: url, model.key: "demo", model.name: "demonstration"}

    async def _start_view(self) -> None:
        # Imported only here, so that it costs nothing without INSPECT.
        from codelab_local.cloud_view.recorder import Recorder
        from codelab_local.cloud_view.view import CloudView

        self._recorder = Recorder()
        self._view = CloudView(self._emulator, self._settings, self._pools, self._recorder)
        await self._view.start()
        self._trace_variables = {
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": self._view.traces_endpoint,
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json",
        }

    def _deploy(self, template: Template, to_keep: ExpandedTemplate | None) -> Deployment:
        aws = self._emulator.wait()
        try:
            deployment = deploy(aws, template, dict(self._settings.parameters), self._settings.region)
            self._emulator.deployed(aws)
            if to_keep is not None and deployment.is_whole:  # Otherwise later starts would not say what is missing.
                to_keep.write(processed_template(aws))
            return deployment
        except (AwsError, OSError) as error:
            raise StartError(f"cannot deploy the template: {error}") from None
        finally:
            aws.close()

    async def _start_functions(self, deployment: Deployment) -> None:
        (self._folder / "functions").mkdir()
        for function in deployment.functions:
            name, recorder = function.source.name, self._recorder
            log = FunctionLog(name, None if recorder is None else partial(recorder.line, name))
            self._logs[function.name] = log
            if is_web_function(function):
                socket = self._folder / f"{function.source.name}.socket"
                environment = self._config(function, deployment).environment
                self._web[function.source.name] = WebFunction(function, environment, log, socket)
                continue
            self._pools[function.name] = Pool(
                function,
                self._settings.concurrency,
                partial(self._processes, function, deployment, log),
                log.line,
                None if recorder is None else recorder.trace,
            )
        starts = [pool.start(wait_for_worker=self._settings.cold) for pool in self._pools.values()]
        outcomes = await asyncio.gather(*starts, return_exceptions=True)
        for pool, outcome in zip(self._pools.values(), outcomes, strict=True):
            if isinstance(outcome, InitFailed):
                raise StartError(f"function {pool.function.source.name} cannot start: {outcome}")
            if isinstance(outcome, BaseException):
                raise outcome

    def _config(self, function: Function, deployment: Deployment) -> WorkerConfig:
        s3_url = f"http://{self._reachable_host}:{self.port}{PREFIX}"
        domain = EventBuilder(deployment.api, deployment.account, deployment.region).domain_name
        internal = self._internal.url
        environment = function_environment(
            function,
            deployment.api,
            self._settings,
            credentials=self._emulator.credentials,
            emulator_url=self._emulator.url,
            s3_url=s3_url,
            internal=internal,
            temporary=self._folder / "functions",
            overlay={**self._model_variables, **self._trace_variables},
        )
        return WorkerConfig(
            folder=function.source.name,
            handler=function.handler,
            path=[str(path) for path in (function.folder, *function.source.layers)],
            environment=environment,
            runtime_api=internal.removeprefix("http://"),
            addresses={
                f"https://{domain}": internal,
                f"http://{domain}": internal,
                f"{s3_url}/": f"{internal}{PREFIX}/",
            },
        )

    def _processes(self, function: Function, deployment: Deployment, log: FunctionLog, pool: Pool) -> Processes:
        config = self._config(function, deployment)
        if pool.changed:
            config = replace(config, ignore_bytecode=True)
        if self._root is None or pool.cold:
            return ColdStarts(config, log.writer, pool)
        return Zygote(self._root, config, log.writer, pool)

    async def _start_gateway(self, deployment: Deployment) -> None:
        settings, api = self._settings, deployment.api
        connections = Connections(api.stage)
        self._internal.connections = connections.handle
        if self._view is not None:
            self._view.connections = connections
        paths = PathForms(api.stage, settings.paths)
        self._gateway = Gateway(
            api,
            EventBuilder(api, deployment.account, deployment.region),
            self._lambdas,
            connections,
            paths,
            settings,
        )
        health = self._health = Health(settings, self._emulator)
        buckets = deployment.buckets
        public = {buckets[name]: prefixes for name, prefixes in settings.public_objects.items() if name in buckets}
        store = ObjectStore(self._emulator, settings.region, public)
        self._internal.objects = store.handle_function
        policy = OriginPolicy(settings.host, self.port, settings.allowed_hosts, settings.allowed_origins)
        await self._public.serve(self._gateway, self._http_application(deployment, health, store), policy)
        self.first_path = paths.forms[0]
        self._stage = api.stage
        if self._model is not None and self._model.poll() is not None:
            assert settings.model is not None
            raise StartError(f"cannot start the demonstration model: set {settings.model.url} to a model's address")
        self._look_at_model()

    def _http_application(self, deployment: Deployment, health: Health, store: ObjectStore) -> Application:
        """The template's HTTP API, S3, the page, and a `/health` for applications without one."""
        folder = self._settings.page
        addresses = (f"http://{self.address}", *self._settings.sign_in_origins)
        page = None if folder is None else Page(folder, self._page_build, " ".join(addresses))
        gateway = None
        if deployment.http_api is not None:
            gateway = HttpGateway(
                deployment.http_api,
                HttpEventBuilder(deployment.http_api, deployment.account, deployment.region),
                self._lambdas,
                integration_timeout=self._settings.integration_timeout,
            )

        web = [(prefix, self._web[name]) for prefix, name in self._settings.web_paths.items() if name in self._web]

        def answer(request: Request) -> Response | Awaitable[Answer]:
            for prefix, function in web:
                if request.path.startswith(prefix):
                    return function.handle(request)
            if request.path.startswith(f"{PREFIX}/"):
                return store.handle(request)
            page_answer = None if page is None else page.handle(request)
            if page_answer is not None:
                return page_answer
            if gateway is not None and (request.path != "/health" or gateway.serves(request.method, request.path)):
                return gateway.handle(request)
            return health.handle(request) if request.path == "/health" else Response.json({"message": "Not Found"}, 404)

        return answer

    def _look_at_model(self) -> None:
        """Have `/health` look at the model from now on, and warn if it is the user's and does not answer."""
        assert self._health is not None
        self._health.model_url = self._model_url
        if self._asking is not None:
            self._asking.cancel()
        if self._model_url is not None and not self._model_variables:
            self._asking = asyncio.get_running_loop().create_task(self._ask_model(self._health, self._model_url))

    async def _ask_model(self, health: Health, url: str) -> None:
        """Warn if the model does not answer. It may be started later, so this is not an error."""
        while self._model_server.is_running and not await health.model_answers():
            await asyncio.sleep(1)  # It reads the model's file.
        if not await health.model_answers():
            assert self._settings.model is not None
            notice(f"no answer from the model at {url}: start it or correct {self._settings.model.url}")

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(min(REAP_INTERVAL, self._settings.worker_idle))
            self._look_after_children()
            for pool in self._pools.values():
                pool.reap(self._settings.worker_idle)
            for web in self._web.values():
                web.reap(self._settings.worker_idle)

    def _look_after_children(self) -> None:
        if self._emulator.process is not None and self._emulator.process.poll() is not None:
            notice("the AWS emulator ended and its data is lost: restart the local cloud")
            self.failure.set()
        if self._model is not None and self._model.poll() is not None:
            notice("the demonstration model ended: restart the local cloud")
            self._model = None
        self._model_server.look()


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _raise_file_limit() -> None:
    """Every worker and every client needs an open file, and the usual soft limit is 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else 65_536, hard))
