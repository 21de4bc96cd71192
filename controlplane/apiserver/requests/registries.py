"""All resources that a server serves, and the registry behind each."""

from __future__ import annotations

from functools import partial

from controlplane.apiserver.kinds.registry import strategy_for
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.requests.lookup import resource_named
from controlplane.apiserver.requests.registry import Registry, Services
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.resources import ResourceInfo, ResourceTable

__all__ = ["Registries", "no_such_resource"]


def no_such_resource() -> status.ApiError:
    """404 for a resource that is not served."""
    return status.ApiError(404, "NotFound", "the server could not find the requested resource", {})


class Registries:
    """The table of what is served, with registries that are made on first use."""

    def __init__(self, services: Services, table: ResourceTable) -> None:
        self.table = table
        self._services = services
        self._registries: dict[str, Registry] = {}

    def resource(self, group: str, version: str, resource: str) -> ResourceInfo:
        """The served resource; ApiError 404."""
        info = self.table.get(group, version, resource)
        if info is None:
            raise no_such_resource()
        return info

    def of(self, info: ResourceInfo) -> Registry:
        """The registry behind a resource, shared by all its versions."""
        found = self._registries.get(info.storage_prefix)
        if found is None:
            hub = info
            if (info.group, info.version) != info.hub:
                other = self.table.get(*info.hub, info.resource)
                hub = other if other is not None else info
            found = Registry(hub, partial(self.strategy, hub), self._services)
            self._registries[info.storage_prefix] = found
        return found

    def named(self, group: str, resource: str) -> Registry:
        """The registry of a built-in resource by group and name."""
        return self.of(resource_named(group, resource))

    def strategy(self, info: ResourceInfo) -> Strategy:
        """The rules of a resource's kind."""
        if info.custom is not None:
            custom: Strategy = info.custom.strategy
            return custom
        return strategy_for(info.group, info.resource)

    def forget(self, storage_prefix: str) -> None:
        """Drop what was derived from a resource that is no longer served, or served otherwise."""
        self._registries.pop(storage_prefix, None)
