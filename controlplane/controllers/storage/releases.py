"""The releases of external-snapshotter that came with a release of Kubernetes."""

from __future__ import annotations

from controlplane.gates import minor_of

__all__ = ["group_version"]


def group_version(release: str) -> str:
    """The version of the API of groups that a release's processes were built with."""
    at = minor_of(release)
    return "v1beta1" if at < (1, 34) else "v1beta2" if at < (1, 36) else "v1"
