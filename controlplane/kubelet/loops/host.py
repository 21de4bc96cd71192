"""What survives the kubelet's process: the runtime's sandboxes, and the addresses it gave out."""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING

from controlplane.kubelet.pod.volumes import Mounts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from controlplane.api.pod import Pod
    from controlplane.api.quantity import Quantity
    from controlplane.kubelet.cm.container_manager import ContainerManager
    from controlplane.kubelet.pod.container_runtime import Sandbox
    from controlplane.metrics.numbers import Metrics


class Host:
    """The machine under a kubelet: its number, and the runtime's sandboxes by pod uid."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.sandboxes: dict[str, Sandbox] = {}
        self.mounts = Mounts()
        """What is mounted, of volumes of CSI drivers."""
        self.written: dict[str, int] = {}
        """By pod uid, how many writes to its volumes its program has done."""
        self.containers: ContainerManager | None = None
        """The managers of the kubelet that runs at present, for who looks at the run from outside."""
        self.metrics: Metrics | None = None
        """What that kubelet counts, for the same."""
        self.promises: Callable[[], tuple[Mapping[str, Quantity], Sequence[Pod]]] | None = None
        """What that kubelet may promise, and its pods that count with what each was promised, for the same."""
        self.promises_go_by: Callable[[], object] | None = None
        """Something that differs whenever its promises may."""
        self.key_of: Callable[[str], str] | None = None
        """The key of a pod that the kubelet knows by its uid, "" of others: for the log."""
        self.refused = ""
        """Why the kubelet's last start ended at once: what its disk has does not fit; "" if it does."""
        self.writing = 0
        """How many operations of the managers stand between two writes that belong together."""
        self._next_address = 2

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
