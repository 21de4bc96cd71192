"""Common parts of the managers' checkpoint files: their checksum, and the message for a damaged one.

Upstream: pkg/kubelet/checkpointmanager. The checksum is FNV-1a over the text in which spew prints the
Go object with a checksum of 0.
"""

from __future__ import annotations

from controlplane.api.fnv import fnv1a_32
from controlplane.kubelet.cm.errors import ManagerError

DIRECTORY = "/var/lib/kubelet"


class CheckpointError(ManagerError):
    """A file that does not hold what was written into it, or does not fit the configuration."""


def checksum_of(dump: str) -> int:
    """The checksum of an object's dump."""
    return fnv1a_32(dump.encode())


def corrupted() -> CheckpointError:
    """The checksum does not fit the rest."""
    return CheckpointError("checkpoint is corrupted")


def not_restored(error: Exception, what: str, file: str) -> CheckpointError:
    """Return the error that stops the kubelet's start, with advice for the operator."""
    return CheckpointError(
        f"could not restore state from checkpoint: {error}, please drain this node and delete the "
        f'{what} checkpoint file "{DIRECTORY}/{file}" before restarting Kubelet'
    )
