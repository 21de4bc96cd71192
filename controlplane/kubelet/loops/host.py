"""State that survives the kubelet's process: the runtime's sandboxes, and their addresses."""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING, Any

from controlplane.kubelet.pod.volumes import Mounts
from controlplane.shell.files import Disks, Hardware

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actors import Mailbox
    from controlplane.api.pod import Pod
    from controlplane.api.quantity import Quantity
    from controlplane.kubelet.cm.container_manager import ContainerManager
    from controlplane.kubelet.cm.dra.manager import DRAManager
    from controlplane.kubelet.pod.container_runtime import Sandbox
    from controlplane.metrics.numbers import Metrics
    from controlplane.shell.running import Life

LIVES_BYTES = 32 << 20
"""The limit, in bytes, of the output of containers that a machine keeps."""


class Sockets(Hardware):
    """The places of the machine's file system by which its processes find each other."""

    def __init__(self) -> None:
        self.pod_resources: Mailbox | None = None
        """The mailbox at which the current kubelet serves the pod resources API, if it does."""
        self.state_watch: Mailbox | None = None
        """The mailbox of a process that watches the managers' state files."""


class Host:
    """The machine under a kubelet: its number, and the runtime's sandboxes by pod uid."""

    def __init__(self, number: int, disks: Disks | None = None) -> None:
        self.number = number
        self.disks = Disks() if disks is None else disks
        """The content of volumes, and what containers wrote."""
        self.lives: dict[str, Life] = {}
        """By container id, the runs of programs that the emulated shell knows, with their output."""
        self.attached: Mailbox | None = None
        """The mailbox of the current kubelet for news of clients at the standard input of containers."""
        self.sandboxes: dict[str, Sandbox] = {}
        self.mounts = Mounts()
        """Mounts of volumes of CSI drivers."""
        self.written: dict[str, int] = {}
        """By pod uid, how many writes to its volumes its program has done."""
        self.sockets = Sockets()
        self.containers: ContainerManager | None = None
        """The managers of the current kubelet, for observers outside the run."""
        self.metrics: Metrics | None = None
        """The metrics of the current kubelet, for observers outside the run."""
        self.claims: DRAManager | None = None
        """The claims of the current kubelet, for observers outside the run."""
        self.promises: Callable[[], tuple[Mapping[str, Quantity], Sequence[Pod]]] | None = None
        """The allocatable amounts of the current kubelet, and its counted pods with their allocations, for observers
        outside the run.
        """
        self.promises_go_by: Callable[[], object] | None = None
        """A value that differs whenever its allocations may."""
        self.process: Any = None
        """The parts of the current kubelet (`kubelet.loops.process.Process`), for observers outside the run."""
        self.key_of: Callable[[str], str] | None = None
        """The key of a pod that the kubelet knows by its uid, "" of others: for the log."""
        self.look_at: Callable[[str], None] | None = None
        """Has the current kubelet look at the containers of a pod, by its uid: something else changed them."""
        self.refused = ""
        """The reason why the kubelet's last start failed: its disk does not fit; "" if it did not fail."""
        self.writing = 0
        """The number of operations of the managers between two writes that belong together."""
        self.begun: dict[str, int] = {}
        """By file, the number of the last write that was begun."""
        self.saved: dict[str, int] = {}
        """By file, the number of the last write that is on the disk."""
        self._next_address = 2
        self._kept = 0

    def keep(self, container_id: str, life: Life) -> None:
        """Keep the output of a run; that of the oldest ones is dropped when there is too much."""
        self.lives[container_id] = life
        self._kept += life.size
        while self._kept > LIVES_BYTES and len(self.lives) > 1:
            oldest = next(iter(self.lives))
            self._kept -= self.lives.pop(oldest).size

    @property
    def host_ip(self) -> str:
        """The node's own address."""
        address = f"172.{16 + (self.number >> 16)}.{(self.number >> 8) & 255}.{self.number & 255}"
        return intern(address)  # each pod of the node has it

    def pod_ip(self) -> str:
        """The next address of the node's range."""
        at = self._next_address
        self._next_address = at + 1 if at < 254 else 2
        return f"10.{128 + ((self.number >> 8) & 127)}.{self.number & 255}.{at}"
