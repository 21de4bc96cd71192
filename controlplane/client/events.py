"""The event recorder: what components report about objects. Upstream: client-go tools/record.

The correlator decides (a new Event, or one more count of a known one); the recorder's task posts,
so that reporting never makes a component wait. An event that cannot be posted is dropped with a
line in the log, as upstream after its retries.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from actors import LinkBroken
from actors.log import WARNING
from controlplane.api.times import format_time
from controlplane.client.clientset import EVENTS, Client
from controlplane.client.errors import ApiError

if TYPE_CHECKING:
    from actors import Context
    from controlplane.api.view import View

Tree = dict[str, Any]
REMEMBERED = 4096
NORMAL = "Normal"
EVENT_WARNING = "Warning"


def reference(view: View) -> Tree:
    """The involvedObject of an event about `view`."""
    found = {
        "apiVersion": view.api_version,
        "kind": view.kind,
        "name": view.name,
        "namespace": view.namespace,
        "resourceVersion": view.resource_version,
        "uid": view.uid,
    }
    return {key: value for key, value in found.items() if value}


class EventCorrelator:
    """Turns reports into writes: equal reports become one Event whose count grows."""

    __slots__ = ("_component", "_host", "_known", "_last_number")

    def __init__(self, component: str, host: str = "") -> None:
        self._component = component
        self._host = host
        self._known: dict[tuple[str, ...], list[Any]] = {}
        self._last_number: dict[str, int] = {}

    def report(
        self, about: Tree, kind: str, reason: str, message: str, now: int
    ) -> tuple[str, Tree]:
        """The write for one report: ("", event tree) to create, or (name, patch) to count an existing one."""
        namespace = about.get("namespace") or "default"
        key = (about.get("uid", ""), about["kind"], namespace, about["name"], kind, reason, message)
        stamp = format_time(now)
        known = self._known.get(key)
        if known is not None:
            known[1] += 1
            return known[0], {"count": known[1], "lastTimestamp": stamp}
        # Several reports of one virtual instant: the number in the name goes up, so that names stay unique.
        number = max(now, self._last_number.get(about["name"], 0) + 1)
        self._last_number[about["name"]] = number
        name = f"{about['name']}.{number:x}"
        if len(self._known) >= REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[key] = [name, 1]
        source = {"component": self._component}
        if self._host:
            source["host"] = self._host
        return "", {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": about,
            "reason": reason,
            "message": message,
            "type": kind,
            "source": source,
            "reportingComponent": self._component,
            "reportingInstance": self._host,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }


class EventRecorder:
    """Takes reports at once, posts them from a task of its own (point `events.post`)."""

    def __init__(
        self,
        ctx: Context,
        component: str,
        epoch_ns: int,
        *,
        host: str = "",
        server: str = "apiserver",
    ) -> None:
        self._ctx = ctx
        self._epoch = epoch_ns
        self._server = server
        self._correlator = EventCorrelator(component, host)
        self._pending: deque[tuple[Tree, str, str, str, int]] = deque()
        self._work = ctx.condition()
        ctx.spawn(self._post, name="events")

    def event(self, view: View, kind: str, reason: str, message: str) -> None:
        """Report something about an object: `kind` is Normal or Warning."""
        self.about(reference(view), kind, reason, message)

    def about(self, reference: Tree, kind: str, reason: str, message: str) -> None:
        """Report about an object that is given by reference."""
        self._pending.append((reference, kind, reason, message, self._epoch + self._ctx.now))
        self._work.notify_all()

    async def _post(self, ctx: Context) -> None:
        client = Client(ctx, self._server)
        while True:
            while not self._pending:
                await self._work.wait(idle=True, point="events.post")
            about, kind, reason, message, at = self._pending.popleft()
            known, tree = self._correlator.report(about, kind, reason, message, at)
            namespace = about.get("namespace") or "default"
            try:
                if known:
                    await client.patch(EVENTS, namespace, known, tree)
                else:
                    await client.create(EVENTS, tree, namespace)
            except (ApiError, LinkBroken) as error:
                ctx.log(
                    "events.dropped", level=WARNING, data={"reason": reason, "message": str(error)}
                )
