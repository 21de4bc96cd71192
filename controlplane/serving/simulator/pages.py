"""The HTTP API of kube-scheduler-simulator, beside that of the API server and under the same address.

    GET  /api/v1/schedulerconfiguration   the scheduler's configuration
    POST /api/v1/schedulerconfiguration   restart it with the profiles and extenders of another one
    PUT  /api/v1/reset                    objects and configuration of the session's beginning
    GET  /api/v1/export                   objects and configuration as one document
    POST /api/v1/import                   apply such a document
    GET  /api/v1/listwatchresources       objects, and then their changes, as lines of JSON

Each needs the group system:masters. An export is read between two steps. What changes the cluster are requests to the
API server, and input of `restarting`, so that a replay repeats it.
Upstream: kubernetes-sigs/kube-scheduler-simulator, simulator/server, simulator/snapshot, simulator/reset,
simulator/scheduler.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import define, field

from controlplane.apiserver.front.answering import HttpAnswer, untyped
from controlplane.apiserver.loops.http_host import PageStream
from controlplane.apiserver.requests.authorization import rbac
from controlplane.errors import UsageError
from controlplane.scenarios.inputs.simulator_files import CONFIG, KINDS, exported
from controlplane.scheduler.config import user_plugins
from controlplane.serving.simulator.importing import Import, ImportFailed, checked
from controlplane.serving.simulator.list_watch import ListWatch, versions_of
from controlplane.serving.simulator.restarting import RESTARTER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors.inlet import Inlet
    from controlplane.api.tree import Tree
    from controlplane.apiserver.loops.http_host import Page
    from controlplane.apiserver.requests.routing import HttpRequest
    from controlplane.cluster import Cluster
    from controlplane.scheduler.plugins.registry import Registry
    from controlplane.serving.objects import Objects
    from controlplane.serving.simulator.list_watch import Streams

__all__ = ["ROOT", "Simulator"]

ROOT: Final = "/api/v1/"
JSON: Final = {"Content-Type": "application/json", "Cache-Control": "no-store"}
IMPORT_LIMIT: Final = 256 << 20
NO_SCHEDULER: Final = (
    "When using an external scheduler, you cannot see and edit the scheduler configuration."
)
"""The answer by which the simulator's page knows that it need not offer the configuration."""


class Refused(Exception):
    """A request is answered with this code and message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@define
class _Configuration:
    """The scheduler's configuration, as a tree with all defaults."""

    initial: Tree
    current: Tree = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.current = self.initial


class Simulator:
    """The API of one session.

    Args:
        cluster: the served cluster.
        objects: its export and reset.
        inlet: where the input of the restarting task enters.
        configuration: the scheduler's configuration at the beginning, with all defaults.
        registry: all plugins that a configuration may name.
    """

    def __init__(
        self,
        cluster: Cluster,
        objects: Objects,
        inlet: Inlet,
        configuration: Tree,
        registry: Registry,
    ) -> None:
        self._cluster = cluster
        self._objects = objects
        self._inlet = inlet
        self._configuration = _Configuration(configuration)
        self._registry = registry
        self._server: Streams | None = None
        self._changing = trio.Lock()

    def serves(self, server: Streams) -> None:
        """Set the entrance of requests into the world."""
        self._server = server

    def pages(self) -> dict[str, Page]:
        """The answers by path."""
        routes: Mapping[str, Mapping[str, Callable[[HttpRequest], Any]]] = {
            "schedulerconfiguration": {"GET": self._shown, "POST": self._configured},
            "reset": {"PUT": self._reset},
            "export": {"GET": self._exported},
            "import": {"POST": self._imported},
            "listwatchresources": {"GET": self._streamed},
        }
        return {ROOT + name: _page(methods) for name, methods in routes.items()}

    def body_limits(self) -> dict[str, int]:
        """By path, the bytes that a body may have: an import is a whole cluster."""
        return {ROOT + "import": IMPORT_LIMIT}

    # ------------------------------------------------------------------ the scheduler

    async def _shown(self, _http: HttpRequest) -> HttpAnswer:
        if not self._cluster.schedulers:
            return _answer(400, NO_SCHEDULER)
        return _answer(200, self._configuration.current)

    async def _configured(self, http: HttpRequest) -> HttpAnswer:
        if not self._cluster.schedulers:
            return _answer(400, NO_SCHEDULER)
        asked = _body(http)
        kept = {
            key: value
            for key, value in self._configuration.current.items()
            if key not in ("profiles", "extenders")
        }
        taken = {key: asked[key] for key in ("profiles", "extenders") if asked.get(key)}
        async with self._changing:
            await self._restart(self._checked({**kept, **taken}))
        return HttpAnswer(202)

    def _checked(self, tree: Tree) -> Tree:
        """A configuration with all defaults. Raises Refused for one that a scheduler cannot run with."""
        try:
            user_plugins.checked_config(tree, self._registry, CONFIG)
        except UsageError as error:
            raise Refused(400, str(error)) from None
        if tree.get("extenders"):
            raise Refused(400, f"{CONFIG}: extenders: the emulated scheduler calls none")
        found: Tree = user_plugins.defaulted_config(tree)
        return found

    async def _restart(self, tree: Tree | None) -> None:
        """Restart the scheduler with a configuration, or (None) the one of the beginning."""
        over = trio.Event()

        def done(_: Any) -> None:
            over.set()

        self._inlet.put(RESTARTER, tree, done)
        await over.wait()
        self._configuration.current = self._configuration.initial if tree is None else tree

    # ------------------------------------------------------------------ objects

    async def _reset(self, _http: HttpRequest) -> HttpAnswer:
        async with self._changing:
            outcome = await self._objects.reset()
            if self._cluster.schedulers:
                await self._restart(None)
        if outcome.errors:
            raise Refused(500, outcome.errors[0])
        return HttpAnswer(202)

    async def _exported(self, _http: HttpRequest) -> HttpAnswer:
        found: list[Mapping[str, list[Tree]]] = []
        over = trio.Event()

        def look() -> None:
            found.append({name: self._stored(kind.prefix) for name, kind in KINDS.items()})
            over.set()

        self._cluster.world.between_steps(look)
        await over.wait()
        config = self._configuration.current if self._cluster.schedulers else None
        return _answer(200, exported(found[0], config))

    def _stored(self, prefix: str) -> list[Tree]:
        """The objects of a resource as they stand in a list of their kind."""
        entries = self._cluster.store.keyspace(prefix).entries
        return [untyped(entry.object.tree) for _, entry in sorted(entries.items())]

    async def _imported(self, http: HttpRequest) -> HttpAnswer:
        try:
            file = checked(_body(http))
        except UsageError as error:
            raise Refused(400, str(error)) from None
        config = file.get(CONFIG)
        assert self._server is not None
        async with self._changing:
            if config is not None and self._cluster.schedulers:
                await self._restart(self._checked(config))
            try:
                await Import(self._server.ask, http.user).apply(file)
            except ImportFailed as failed:
                raise Refused(500, str(failed)) from None
        return HttpAnswer(200)

    async def _streamed(self, http: HttpRequest) -> PageStream:
        assert self._server is not None
        stream = ListWatch(self._server, http.user, versions_of(http.query))
        return PageStream("application/json", stream.feed)


def _page(methods: Mapping[str, Callable[[HttpRequest], Any]]) -> Page:
    """The page of a path: refusals in the form of the simulator's own."""

    async def page(http: HttpRequest) -> HttpAnswer | PageStream:
        answer = methods.get(http.method)
        if answer is None:
            return _refusal(405, "Method Not Allowed")
        if rbac.MASTERS not in http.user.groups:
            return _refusal(403, f"the simulator is for {rbac.MASTERS} alone")
        try:
            found: HttpAnswer | PageStream = await answer(http)
        except Refused as refused:
            return _refusal(refused.code, str(refused))
        return found

    return page


def _answer(code: int, tree: Any) -> HttpAnswer:
    return HttpAnswer(code, dict(JSON), tree)


def _refusal(code: int, message: str) -> HttpAnswer:
    return _answer(code, {"message": message})


def _body(http: HttpRequest) -> Tree:
    """The body, which must be a JSON object. Raises Refused."""
    try:
        found = json.loads(http.body)
    except (ValueError, RecursionError):
        raise Refused(400, "the body is not JSON") from None
    if not isinstance(found, dict):
        raise Refused(400, "the body: expected an object")
    return found
