"""Groups of the API that other processes of the control plane answer, as aggregated API servers do.

Upstream: kube-aggregator with an APIService for each version. Here the API server knows the groups from its start,
checks who may ask, and passes each request on as a message.
"""

from __future__ import annotations

from attrs import frozen

from controlplane.api.tree import Tree

__all__ = ["AggregatedGroup", "AggregatedResource", "Refused", "request_body"]


@frozen
class AggregatedResource:
    """A resource, or with a slash a subresource, as discovery lists it."""

    name: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...] = ()


@frozen
class AggregatedGroup:
    """A group, its versions with the preferred one first, and the equal processes, one of which answers."""

    name: str
    versions: tuple[str, ...]
    actors: tuple[str, ...]
    resources: tuple[AggregatedResource, ...]


def request_body(
    api_version: str,
    resource: str,
    subresource: str,
    namespace: str,
    name: str,
    query: dict[str, str],
) -> Tree:
    """Return the body of the request to the process."""
    return {
        "apiVersion": api_version,
        "resource": resource,
        "subresource": subresource,
        "namespace": namespace,
        "name": name,
        "query": dict(query),
    }


@frozen
class Refused:
    """The failure of a request: HTTP status, reason, message and details of a Status, which the API server makes."""

    code: int
    reason: str
    message: str
    details: Tree | None = None
