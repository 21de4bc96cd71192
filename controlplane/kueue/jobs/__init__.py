"""Jobs that Kueue manages: what they need, and how they are stopped and started.

A kind of job of a user derives from GenericJob; what it imports stands here:

    from controlplane.kueue.jobs import Finished, GenericJob, Kind, PodSetInfo

Names are imported when they are first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controlplane.api.tree import Tree
    from controlplane.apiserver.schema.field_errors import FieldError, forbidden, invalid
    from controlplane.kueue.jobs.generic import GenericJob
    from controlplane.kueue.jobs.kinds import Finished
    from controlplane.kueue.jobs.objects import Kind
    from controlplane.kueue.jobs.pod_sets import Info as PodSetInfo
    from controlplane.kueue.jobs.pod_sets import PermanentError

__all__ = [
    "FieldError",
    "Finished",
    "GenericJob",
    "Kind",
    "PermanentError",
    "PodSetInfo",
    "Tree",
    "forbidden",
    "invalid",
]

_PLACES = {
    "FieldError": "controlplane.apiserver.schema.field_errors",
    "Finished": "controlplane.kueue.jobs.kinds",
    "GenericJob": "controlplane.kueue.jobs.generic",
    "Kind": "controlplane.kueue.jobs.objects",
    "PermanentError": "controlplane.kueue.jobs.pod_sets",
    "PodSetInfo": "controlplane.kueue.jobs.pod_sets",
    "Tree": "controlplane.api.tree",
    "forbidden": "controlplane.apiserver.schema.field_errors",
    "invalid": "controlplane.apiserver.schema.field_errors",
}
"""The module that defines each public name."""


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), "Info" if name == "PodSetInfo" else name)
