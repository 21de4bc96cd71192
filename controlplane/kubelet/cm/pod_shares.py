"""Shares of the containers of a pod in the pod's own resources (gate PodLevelResourceManagers).

Upstream: allocatePod of the static policies of pkg/kubelet/cm/cpumanager and memorymanager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from controlplane.kubelet.cm.requests import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.api.containers import Container
    from controlplane.api.pod import Pod

V = TypeVar("V")


def shares_of(
    pod: Pod,
    whole: V,
    take: Callable[[Container, V], V | None],
    less: Callable[[V, V], V],
) -> dict[str, V]:
    """Return the share of each container in `whole`.

    `take` gives a container its exclusive part of a pool, None when it has none; `less` takes a part from a pool.
    Raises what `take` raises.

    An init container runs beside the sidecars before it, so it may use all that these leave. Containers without an
    exclusive part, sidecars among them, share the rest that is left at the end.
    """
    shares: dict[str, V] = {}
    sharing: list[str] = []
    pool = whole
    for container in pod.spec.init_containers:
        own = take(container, pool)
        if own is not None:
            shares[container.name] = own
            if is_sidecar(container):
                pool = less(pool, own)
        elif is_sidecar(container):
            sharing.append(container.name)
        else:
            shares[container.name] = pool
    for container in pod.spec.containers:
        own = take(container, pool)
        if own is None:
            sharing.append(container.name)
        else:
            shares[container.name] = own
            pool = less(pool, own)
    for name in sharing:
        shares[name] = pool
    return shares
