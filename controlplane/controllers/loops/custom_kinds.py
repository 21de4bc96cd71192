"""Informers for custom kinds that come and go while the controllers run.

Upstream polls discovery every thirty seconds for that; here the definitions tell, so that nothing has to be awaited:
the time in which upstream does not know of a kind yet is not expressed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.client.indexer import Indexer
from controlplane.client.loops.informer import Informer, handler, together
from controlplane.controllers.lifecycle.custom_kinds import kinds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors import Context
    from controlplane.api.object import Object
    from controlplane.client.loops.connection import RestConfig
    from controlplane.controllers.common.controller import Controller, Handlers
    from controlplane.controllers.common.rest_mapper import RESTMapper, ServedKind


class CustomKinds:
    """Tells the mapper of custom kinds, and the controllers that want to hear of their objects."""

    def __init__(
        self,
        ctx: Context,
        server: RestConfig,
        mapper: RESTMapper,
        controllers: Sequence[Controller],
    ) -> None:
        self._ctx = ctx
        self._server = server
        self._mapper = mapper
        self._controllers = controllers
        self._informers: dict[str, Informer[Any]] = {}
        self._known: dict[str, list[ServedKind]] = {}

    @property
    def needed(self) -> bool:
        """Return whether any controller looks at kinds that it cannot know beforehand."""
        return any(each.any_kind for each in self._controllers)

    def handlers(self) -> tuple[Any, Any, Any]:
        """For definitions."""
        return (
            self._changed,
            lambda _old, new: self._changed(new),
            lambda obj, _unknown: self._forget(obj.name),
        )

    def _changed(self, definition: Object[Any]) -> None:
        kinds = kinds_of(definition)
        name = definition.name
        if kinds == self._known.get(name, []):
            return
        self._forget(name)
        self._known[name] = kinds
        self._mapper.add(*kinds)
        if not kinds:
            return
        first = kinds[0]
        told: list[Handlers] = []
        for controller in self._controllers:
            found = controller.handlers_of_kind(first)
            if found is not None:
                told.append(found)
        if told:
            informer = Informer(self._ctx, first.resource, Indexer(), server=self._server)
            informer.add_handler(together(*(handler(*each) for each in told)), "controllers")
            self._informers[name] = informer
            informer.start()

    def _forget(self, name: str) -> None:
        for kind in self._known.pop(name, []):
            self._mapper.remove(kind.resource.api_version, kind.kind)
        informer = self._informers.pop(name, None)
        if informer is not None:
            informer.stop()
