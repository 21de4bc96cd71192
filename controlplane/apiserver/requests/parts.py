"""The parts of a server that its endpoints are built from."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve, frozen

from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.options import ServerOptions
from controlplane.apiserver.requests.admission.chain import Admission
from controlplane.apiserver.requests.authorization.access import Access
from controlplane.apiserver.requests.bodies import Bodies
from controlplane.apiserver.requests.registries import Registries
from controlplane.apiserver.requests.registry import Registry
from controlplane.apiserver.requests.writing import Writer

__all__ = ["Parts", "seen_as"]


@frozen
class Parts:
    """One server's registries, their readers and writers, and its authorization."""

    options: ServerOptions
    registries: Registries
    bodies: Bodies
    writer: Writer
    access: Access
    uid: Callable[[], str]
    admission: Admission


def seen_as(ctx: Context, registry: Registry) -> Context:
    """The same request, for a write to another resource; what it warns of is not said."""
    return evolve(ctx, info=registry.info, rules=registry.rules, warnings=None)
