"""Authentication and authorization of a request by the stored roles, before its body is read.

It looks from outside, between two steps: nothing of it is recorded, and the world decides again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.apiserver.http.impersonation import acting
from controlplane.apiserver.requests.authorization import rbac
from controlplane.apiserver.requests.authorization.access import Access
from controlplane.apiserver.requests.lookup import StoreLookup

if TYPE_CHECKING:
    from controlplane.apiserver.loops.http_host import AccessCheck
    from controlplane.apiserver.requests.routing import HttpRequest
    from controlplane.cluster import Cluster

__all__ = ["of"]


def of(cluster: Cluster) -> AccessCheck:
    """The authentication and impersonation of a cluster's requests. Raises ApiError 400, 401, 403."""
    lookup = StoreLookup(cluster.store)
    access = Access(lookup, enabled=cluster.server_options().authorize)

    def enter(http: HttpRequest) -> None:
        now = cluster.config.epoch_ns + cluster.world.now
        http.user = acting(access, lookup, http, now)
        access.check(http.user, rbac.attributes_of(http))

    return enter
