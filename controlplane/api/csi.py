"""Calls of the container storage interface as values, and the names that go with them.

Fields have the names of the protobuf messages; absent ones have their default. Times are nanoseconds since
the epoch. Codes are gRPC's, by name. Upstream: container-storage-interface spec 1.13; for the names
pkg/volume/csi/csi_attacher.go and csi_plugin.go.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from attrs import field, frozen

from controlplane.api.tree import Tree

OK: Final = "OK"
INVALID_ARGUMENT: Final = "InvalidArgument"
NOT_FOUND: Final = "NotFound"
ALREADY_EXISTS: Final = "AlreadyExists"
OUT_OF_RANGE: Final = "OutOfRange"
UNIMPLEMENTED: Final = "Unimplemented"
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
UNAVAILABLE: Final = "Unavailable"
ABORTED: Final = "Aborted"
INTERNAL: Final = "Internal"
FAILED_PRECONDITION: Final = "FailedPrecondition"
RESOURCE_EXHAUSTED: Final = "ResourceExhausted"
CANCELED: Final = "Canceled"
UNFINISHED: Final = frozenset(
    {CANCELED, DEADLINE_EXCEEDED, UNAVAILABLE, RESOURCE_EXHAUSTED, ABORTED}
)
"""Codes after which a call may have taken effect, or still may. Upstream: isFinalError of csi_client.go."""

MANAGED_ATTACH: Final = "volumes.kubernetes.io/controller-managed-attach-detach"
"""Annotation of nodes whose volumes the controller attaches."""
KEEPS_TERMINATED: Final = "volumes.kubernetes.io/keep-terminated-pod-volumes"
NODE_IDS: Final = "csi.volume.kubernetes.io/nodeid"
"""Annotation of nodes: by driver, what the driver calls the node."""
_PLUGIN: Final = "kubernetes.io/csi/"


@frozen
class CsiRequest:
    """One call. `node` is the node whose plugin is asked, of the calls that go to a node's."""

    method: str
    fields: Mapping[str, Any] = field(factory=dict)
    node: str = ""

    @property
    def label(self) -> str:
        """Return the name of the step."""
        return f"csi.{self.method}"


@frozen
class CsiReply:
    """The answer of a driver."""

    code: str = OK
    message: str = ""
    response: Mapping[str, Any] = field(factory=dict)


@frozen
class Write:
    """A program writes to a volume; answered by whether it could.

    With a node the volume has to be published there, as it is for a pod; without, it is written to past
    everything.
    """

    volume: str
    payload: Any
    node: str = ""


class CsiError(Exception):
    """A call failed; the text is as gRPC words it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"rpc error: code = {code} desc = {message}")
        self.code = code
        self.message = message


def unique_name(driver: str, handle: str) -> str:
    """Return the name by which nodes and controllers refer to a volume of a driver."""
    return f"{_PLUGIN}{driver}^{handle}"


def driver_and_handle(unique: str) -> tuple[str, str]:
    """The driver and the handle in such a name."""
    driver, _, handle = unique.removeprefix(_PLUGIN).partition("^")
    return driver, handle


def attachment_name(handle: str, driver: str, node: str) -> str:
    """The name of the VolumeAttachment of a volume and a node."""
    return f"csi-{sha256(f'{handle}{driver}{node}'.encode()).hexdigest()}"


_ACCESS: Final = {
    "ReadWriteOnce": "SINGLE_NODE_MULTI_WRITER",
    "ReadWriteOncePod": "SINGLE_NODE_SINGLE_WRITER",
    "ReadOnlyMany": "MULTI_NODE_READER_ONLY",
    "ReadWriteMany": "MULTI_NODE_MULTI_WRITER",
}
"""Of drivers that tell one writer on a node from several, as the hostpath driver does."""
ONE_NODE: Final = frozenset({"SINGLE_NODE_MULTI_WRITER", "SINGLE_NODE_SINGLE_WRITER"})
"""Access modes of volumes that one node may have at a time."""


def capability(modes: Sequence[str], volume_mode: str | None) -> dict[str, Any]:
    """The volume capability of the first access mode; of no mode, that of one node."""
    mode = _ACCESS[modes[0]] if modes else "SINGLE_NODE_WRITER"
    return {"access_mode": {"mode": mode}, "block" if volume_mode == "Block" else "mount": {}}


def decoded(secret: Tree) -> dict[str, str]:
    """The data of a secret as text, as drivers get it."""
    data = secret.get("data") or {}
    return {key: b64decode(value).decode("utf-8", "replace") for key, value in data.items()}
