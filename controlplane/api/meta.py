"""Metadata that every object carries, and the small types shared by all API groups."""

from __future__ import annotations

import attrs

from controlplane.api.times import Time
from controlplane.api.tree import EMPTY_MAP
from controlplane.sharing.quick_init import quick_init


@attrs.frozen
class OwnerReference:
    """A reference to an owner in the same namespace; garbage collection follows it."""

    api_version: str = ""
    block_owner_deletion: bool | None = None
    controller: bool | None = None
    kind: str = ""
    name: str = ""
    uid: str = ""


@quick_init
@attrs.frozen(weakref_slot=False)
class ObjectMeta:
    """Name, identity, labels and life cycle marks of an object; times are nanoseconds."""

    annotations: dict[str, str] = EMPTY_MAP
    creation_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    deletion_timestamp: Time | None = None
    finalizers: tuple[str, ...] = ()
    generate_name: str = ""
    generation: int = 0
    labels: dict[str, str] = EMPTY_MAP
    name: str = ""
    namespace: str = ""
    owner_references: tuple[OwnerReference, ...] = ()
    resource_version: str = ""
    uid: str = ""


@attrs.frozen
class LabelSelectorRequirement:
    """One set-based requirement of a label selector object."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


@attrs.frozen
class LabelSelector:
    """A label selector as an object; None selects nothing, the empty one everything."""

    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
    match_labels: dict[str, str] = EMPTY_MAP


@attrs.frozen
class Condition:
    """A condition of the form used by newer API types."""

    last_transition_time: Time | None = None
    message: str = ""
    observed_generation: int = 0
    reason: str = ""
    status: str = ""
    type: str = ""
