"""The claim for a volume: its spec is shared by claims and by ephemeral volumes of pods."""

from __future__ import annotations

from typing import ClassVar

import attrs

from controlplane.api.meta import LabelSelector, ObjectMeta
from controlplane.api.quantity import Quantity
from controlplane.api.references import TypedLocalObjectReference, TypedObjectReference
from controlplane.api.times import Time
from controlplane.api.tree import EMPTY_MAP
from controlplane.api.view import View


@attrs.frozen
class VolumeResourceRequirements:
    """Storage requested by a claim."""

    limits: dict[str, Quantity] = EMPTY_MAP
    requests: dict[str, Quantity] = EMPTY_MAP


@attrs.frozen
class PersistentVolumeClaimSpec:
    """The request of a claim; `storage_class_name` None differs from the empty string."""

    access_modes: tuple[str, ...] = ()
    data_source: TypedLocalObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None
    resources: VolumeResourceRequirements = attrs.field(factory=VolumeResourceRequirements)
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: str = ""
    volume_name: str = ""


@attrs.frozen
class PersistentVolumeClaimTemplate:
    """The claim that an ephemeral volume creates."""

    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: PersistentVolumeClaimSpec = attrs.field(factory=PersistentVolumeClaimSpec)


@attrs.frozen
class PersistentVolumeClaimCondition:
    """A condition of a claim, such as a resize in progress."""

    last_probe_time: Time | None = None
    last_transition_time: Time | None = None
    message: str = ""
    reason: str = ""
    status: str = ""
    type: str = ""


@attrs.frozen
class ModifyVolumeStatus:
    """Progress of a change of the volume attributes class."""

    status: str = ""
    target_volume_attributes_class_name: str = ""


@attrs.frozen
class PersistentVolumeClaimStatus:
    """The state of a claim."""

    access_modes: tuple[str, ...] = ()
    allocated_resource_statuses: dict[str, str] = EMPTY_MAP
    allocated_resources: dict[str, Quantity] = EMPTY_MAP
    capacity: dict[str, Quantity] = EMPTY_MAP
    conditions: tuple[PersistentVolumeClaimCondition, ...] = ()
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None
    phase: str = ""


@attrs.frozen(eq=False)
class PersistentVolumeClaim(View):
    """A request for storage, bound to one volume."""

    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "PersistentVolumeClaim"

    spec: PersistentVolumeClaimSpec = attrs.field(factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = attrs.field(factory=PersistentVolumeClaimStatus)
