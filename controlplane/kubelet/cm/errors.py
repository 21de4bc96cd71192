"""Errors of the resource managers, with the reason that a pod is refused with.

Upstream: pkg/kubelet/cm/admission/errors.go.
"""

from __future__ import annotations

from typing import ClassVar

UNEXPECTED = "UnexpectedAdmissionError"
TOPOLOGY_AFFINITY = "TopologyAffinityError"


class ManagerError(ValueError):
    """A manager cannot be made, cannot start, or cannot give a container what it asks for."""

    reason: ClassVar[str] = UNEXPECTED


class SMTAlignmentError(ManagerError):
    """Whole cores were asked for, and there are none or the number does not fit."""

    reason: ClassVar[str] = "SMTAlignmentError"


class EmptyPodSharedPoolError(ManagerError):
    """A pod's own budget would leave nothing for its containers without exclusive resources."""

    reason: ClassVar[str] = "EmptyPodSharedPoolError"


def refusal(error: ManagerError) -> tuple[str, str]:
    """The reason and message of a pod that is refused because of an error."""
    if error.reason == UNEXPECTED:
        return UNEXPECTED, f"Allocate failed due to {error}, which is unexpected"
    return error.reason, str(error)
