"""The controllers: decisions in one package per subject, their tasks in `loops`.

    workloads    deployment, replicaset, statefulset, daemonset, job, cronjob, disruption
    network      endpoints, endpoint slices
    devices      claims of devices, eviction by device taints
    storage      volumes, claims, attachments, snapshots, provisioning
    lifecycle    namespaces, nodes, taints, garbage collection, quotas, service accounts
    autoscaling  horizontal pod autoscaling
    common       what several controllers share: effects, ownership of pods, histories
    loops        the tasks that await

An operator of a user imports its interfaces from here:

    from controlplane.controllers import Controller, Handlers, Resource, Work, calls

Names are imported at their first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controlplane.client import calls
    from controlplane.client.errors import ApiError, is_already_exists, is_conflict, is_not_found
    from controlplane.client.resources import CONFIG_MAPS, PODS, Resource
    from controlplane.controllers.common.controller import Controller, Handlers, Work, ignore
    from controlplane.controllers.common.ownership import controller_reference
    from controlplane.controllers.common.ref_manager import controller_index, controller_keys

__all__ = [
    "CONFIG_MAPS",
    "PODS",
    "ApiError",
    "Controller",
    "Handlers",
    "Resource",
    "Work",
    "calls",
    "controller_index",
    "controller_keys",
    "controller_reference",
    "ignore",
    "is_already_exists",
    "is_conflict",
    "is_not_found",
]

_PLACES = {
    "controlplane.client.errors": ("ApiError", "is_already_exists", "is_conflict", "is_not_found"),
    "controlplane.client.resources": ("CONFIG_MAPS", "PODS", "Resource"),
    "controlplane.controllers.common.controller": ("Controller", "Handlers", "Work", "ignore"),
    "controlplane.controllers.common.ownership": ("controller_reference",),
    "controlplane.controllers.common.ref_manager": ("controller_index", "controller_keys"),
}
"""The public names that each module defines."""


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "calls":
        return import_module("controlplane.client.calls")
    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
