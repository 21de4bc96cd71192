"""A world for the races of an informer's queue: a server of config maps whose watches expire, and a follower.

The server is an actor of its own that speaks the API server's list and watch of one resource. Its
objects come and go under two names; now and then it ends its watches with "too old resource
version", so that clients list anew at once, while earlier notifications may still be queued.
Time may pass while a task stands ready (a busy process), which lets a list overtake what is queued.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.scenarios.engine.option import Option
from controlplane.scenarios.engine.scenario import Scenario
from controlplane.scenarios.invariants.caches import FOLLOWER, cache_is

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.api.object import Object
    from controlplane.client.features import ClientFeatures
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User

SERVER = "server"
NAMES = ("a", "b")
CHANGES = 8
QUEUES = ("DeltaFIFO", "RealFIFO", "AtomicFIFO")
EXPIRED = {
    "kind": "Status",
    "status": "Failure",
    "code": 410,
    "reason": "Expired",
    "message": "too old resource version",
}
QUEUE = Option(
    "queue",
    choices=QUEUES,
    default="DeltaFIFO",
    help="What stands between the reflector and the store: the queue before 1.33, before 1.36, or from 1.36 on.",
)


class _Server:
    """The server's objects and its history so far."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.version = 0
        self.objects: dict[str, Object] = {}
        self.history: list[Any] = []
        self.streams: list[Any] = []

    async def answer(self) -> None:
        """Lists get what there is; watches what came after their version, and what is to come."""
        from controlplane.api.request import Response
        from controlplane.client.loops.informer import WatchBatch

        ctx = self.user.ctx
        while True:
            message = await ctx.recv(idle=True)
            if message.stream is None:
                tree = {"metadata": {"resourceVersion": str(self.version)}}
                message.reply(Response(200, tree, items=list(self.objects.values())))
                continue
            since = int(message.payload.query["resourceVersion"])
            missed = tuple(event for event in self.history if event.revision > since)
            if missed:
                ctx.send(message.stream, WatchBatch(missed))
            self.streams = [message.stream]

    async def live(self, user: User) -> None:
        """Objects come and go; now and then all watches expire."""
        from controlplane.client.loops.informer import WatchBatch

        await user.sleep(1)
        for number in range(CHANGES):
            name = NAMES[user.choose(len(NAMES), "which")]
            what = user.choose(3, "what")
            if name not in self.objects:
                self._change("ADDED", name, f"{name}{number}")
            elif what:
                self._change("DELETED", name, "")
            else:
                self._change("MODIFIED", name, self.objects[name].uid)
            next_ = user.choose(3, "what next")
            if next_ == 1:
                streams, self.streams = self.streams, []
                for stream in streams:
                    user.ctx.send(stream, WatchBatch((), error=EXPIRED))
            elif next_ == 2:
                await user.sleep(0.25)
            else:
                await user.point("life")

    def _change(self, kind: str, name: str, uid: str) -> None:
        from controlplane.api.object import Object
        from controlplane.apiserver.storage.watch_cache import WatchEvent
        from controlplane.client.loops.informer import WatchBatch

        self.version += 1
        if kind == "DELETED":
            made = self.objects.pop(name)
        else:
            metadata = {
                "name": name,
                "namespace": "default",
                "uid": uid,
                "resourceVersion": str(self.version),
            }
            made = Object({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
            self.objects[name] = made
        event = WatchEvent(kind, made, self.version)
        self.history.append(event)
        for stream in self.streams:
            self.user.ctx.send(stream, WatchBatch((event,)))


async def _serve(user: User) -> None:
    server = user.notes[SERVER] = _Server(user)
    user.spawn(server.live)
    await server.answer()


def features(setting: Setting) -> ClientFeatures:
    """The client library with the queue that the option names, and the fixes that are in force."""
    from controlplane.client.features import ClientFeatures

    return ClientFeatures(
        in_order_informers=setting["queue"] != "DeltaFIFO",
        atomic_fifo=setting["queue"] == "AtomicFIFO",
        fixes=setting.gates,
    )


async def _follow(user: User) -> None:
    from controlplane.client.loops.connection import RestConfig
    from controlplane.scenarios.invariants.caches import follow_at

    follow_at(user, RestConfig((SERVER,), features(user.run.setting)))


def _build(_setting: Setting) -> ClusterConfig:
    """Start only the two servers: the cluster's own API server has no client."""
    from controlplane.cluster import ClusterConfig

    return ClusterConfig(nodes=(), kubelets=False, controllers=False, schedulers=0)


def _held(run: Run) -> Mapping[str, Object]:
    server: _Server = run.notes[SERVER]
    return {obj.key: obj for obj in server.objects.values()}


def scenario(name: str) -> Scenario:
    """A follower of a server whose watches expire."""
    return Scenario(
        name,
        workload={SERVER: _serve, FOLLOWER: _follow},
        build=_build,
        invariants=(cache_is(_held),),
        options=(QUEUE,),
        eager_time=True,
        livelock_limit=200_000,
    )
