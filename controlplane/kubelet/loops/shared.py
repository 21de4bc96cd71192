"""State that the tasks of one kubelet share. Lost with the process; only the machine and the disk survive it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from actors.log import WARNING
from controlplane.kubelet.pod.pod_config import API, PodConfig
from controlplane.kubelet.pod.pod_manager import PodManager
from controlplane.kubelet.pod.status_manager import StatusManager

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors import Context
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod
    from controlplane.api.tree import Tree
    from controlplane.client.loops.connection import RestConfig
    from controlplane.client.loops.event_recorder import EventRecorder
    from controlplane.gates import FixGates
    from controlplane.kubelet.cm.devicemanager.manager import DeviceManager
    from controlplane.kubelet.loops.host import Host
    from controlplane.kubelet.pod.pod_config import PodUpdate

RETRY_NS = 1_000_000_000


class InUse(Protocol):
    """The volume manager of the node."""

    def in_use(self) -> list[str]:
        """Return the volumes that the node's status shows as in use."""

    def reported(self, names: Sequence[str]) -> None:
        """It shows these."""

    def look_again(self) -> None:
        """Something may be mounted for pods that are gone."""


class Shared:
    """One kubelet's memory, its clock, and how its tasks wake each other."""

    def __init__(
        self,
        ctx: Context,
        epoch_ns: int,
        node: Node,
        host: Host,
        server: RestConfig,
        recorder: EventRecorder | None,
        fixes: FixGates,
        sources: tuple[str, ...] = (API,),
    ) -> None:
        self.ctx = ctx
        self.epoch = epoch_ns
        self.node = node
        """As last heard of."""
        self.host = host
        self.server = server
        self.fixes = fixes
        self.started = ctx.now
        self._looked_at = -1
        self._now = 0
        self._recorder = recorder
        self.volumes: InUse | None = None
        """The volume manager, where the node has CSI drivers."""
        self.devices: DeviceManager | None = None
        """The device manager, where the node has device plugins."""
        self.under_pressure: tuple[str, ...] = ()
        """The conditions of the node that the eviction manager has seen."""
        self.config = PodConfig(sources)
        self.pods = PodManager()
        self.statuses = StatusManager()
        self.updates: deque[PodUpdate] = deque()
        """Updates of the sources that the sync loop has not taken yet."""
        self.relisted: deque[str] = deque()
        """Pods whose containers changed, by uid, as the last relists found and the sync loop has not heard yet."""
        self.probed: dict[str, None] = {}
        """Pods of which a probe found something new, likewise."""
        self.ready: dict[str, None] = {}
        """Sources whose first push the sync loop has taken."""
        self.housekeeping_due = False
        self.news = ctx.condition()
        """Something for the sync loop."""
        self.to_send = ctx.condition()
        """Something for the status manager's sender."""
        self.full_pass_due = False
        """The sender's next full pass would find something."""
        self.untidy = ctx.signal()
        """Something for housekeeping."""

    def sources_ready(self) -> bool:
        """Return whether all sources have been heard and taken in: until then nothing is taken for gone (#81324)."""
        return len(self.ready) == len(self.config.sources)

    def now(self) -> int:
        """Nanoseconds since the Unix epoch: in one instant one number, which many keep."""
        since = self.ctx.now
        if since != self._looked_at:
            self._looked_at = since
            self._now = self.epoch + since
        return self._now

    def next_tick(self, period_s: int) -> int:
        """Return the next virtual time at which a ticker of this kubelet with this period fires."""
        period = period_s * 1_000_000_000
        since = self.ctx.now - self.started
        return self.started + (since // period + 1) * period

    def event(self, about: Tree, kind: str, reason: str, message: str) -> None:
        """Report an Event, if this kubelet does."""
        if self._recorder is not None:
            self._recorder.about(about, kind, reason, message)

    def error(self, message: str, pod: Pod | None = None) -> None:
        """A request failed: it will be tried again."""
        more: dict[str, Any] = {} if pod is None else {"obj": f"Pod/{pod.key}", "uid": pod.uid}
        self.ctx.log("kubelet.error", level=WARNING, data={"message": message}, **more)

    # ------------------------------------------------------------------ wake-ups

    def heard(self, updates: list[PodUpdate]) -> None:
        """Sources said something."""
        if updates:
            self.updates.extend(updates)
            self.news.notify_all()

    def tidy_up(self) -> None:
        """Something is left over: let housekeeping look at it when its time comes."""
        self.untidy.notify()

    def status_changed(self) -> None:
        """There is something to send."""
        self.to_send.notify_all()

    def repair_statuses(self) -> None:
        """The API server shows something else than we said: let the next full pass put it right."""
        if not self.full_pass_due:
            self.full_pass_due = True
            self.to_send.notify_all()
