"""VolumeAttachments. Upstream: pkg/registry/storage/volumeattachment, pkg/apis/storage."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, name_of, part_of
from controlplane.apiserver.kinds.checks import problems, when
from controlplane.apiserver.kinds.core.persistent_volumes import validate_inline_volume
from controlplane.apiserver.kinds.core.pods.defaults import default_volume_source
from controlplane.apiserver.kinds.core.resources import resource_list
from controlplane.apiserver.kinds.core.volume_sources import csi_driver_name
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Context, Strategy
from controlplane.apiserver.kinds.trees import in_spec, inside
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    required,
    too_long,
)
from controlplane.apiserver.schema.internal_form import internal

__all__ = ["KIND"]


def default_attachment(tree: Tree) -> Tree:
    """Defaults of the volume that an attachment describes itself."""

    def inline(spec: Tree) -> Tree:
        return default_volume_source(inside(spec, "capacity", resource_list))

    return in_spec(
        tree,
        lambda spec: inside(
            spec, "source", lambda source: inside(source, "inlineVolumeSpec", inline)
        ),
    )


def validate_attachment(tree: Tree) -> list[FieldError]:
    """Return the errors of a volume attachment."""
    spec = tree.get("spec") or {}
    attacher = spec.get("attacher", "")
    errors: list[FieldError] = []
    if not attacher:
        errors.append(required("spec.attacher"))
    else:
        errors += csi_driver_name(attacher, "spec.attacher")
    source = spec.get("source") or {}
    name = source.get("persistentVolumeName")
    if name is not None and source.get("inlineVolumeSpec") is not None:
        text = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        errors.append(forbidden("spec.source", text))
    elif name is None and source.get("inlineVolumeSpec") is None:
        problem = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        errors.append(required("spec.source", problem))
    elif name is None:
        errors += validate_inline_volume(source["inlineVolumeSpec"], "spec.source.inlineVolumeSpec")
    place = "spec.source.persistentVolumeName"
    if name is not None and source.get("inlineVolumeSpec") is None:
        errors += when(not name, required, place, "must specify non empty persistentVolumeName")
    node = spec.get("nodeName", "")
    errors += problems("spec.nodeName", node, names.dns_subdomain(node))
    errors += _attachment_status(tree.get("status") or {})
    if name is not None:
        errors += problems(place, name, names.dns_subdomain(name))
    return errors


def _attachment_status(status: Tree) -> list[FieldError]:
    """Return the errors of a volume attachment's status."""
    metadata = status.get("attachmentMetadata") or {}
    errors = when(
        sum(len(part.encode()) for pair in metadata.items() for part in pair) > _MAX_METADATA,
        too_long,
        "status.attachmentMetadata",
        _MAX_METADATA,
    )
    for key in ("attachError", "detachError"):
        error = status.get(key)
        if error is None:
            continue
        message, code = error.get("message", ""), error.get("errorCode")
        if len(message.encode()) > _MAX_MESSAGE:
            errors.append(too_long(f"status.{key}.message", _MAX_METADATA))  # as upstream says
        if code is not None and not 0 <= code <= _MAX_INT32:
            text = f"must be between 0 and {_MAX_INT32}, inclusive"
            errors.append(invalid(f"status.{key}.errorCode", code, text))
    return errors


_MAX_METADATA = 256 * 1024
"""Bytes of all keys and values of what an attachment tells of itself."""
_MAX_MESSAGE = 1024
_MAX_INT32 = 2**31 - 1


def validate_attachment_update(new: Tree, old: Tree, written: Any = None) -> list[FieldError]:
    """Return the errors of a changed volume attachment; its spec stays. `written` is the spec as it was written."""
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    errors = validate_attachment(new)
    if spec != was:
        shown = internal("AttachmentSpec", spec, written)
        errors.append(invalid("spec", shown, "field is immutable"))
    return errors


class AttachmentStrategy(Strategy):
    """Volume attachments; a status update leaves the metadata alone."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        return {**tree, "status": {"attached": False}}

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind."""
        return validate_attachment_update(new, old, ctx.written("spec"))


KIND = Kind(
    strategy=AttachmentStrategy(
        default=default_attachment,
        rule=validate_attachment,
        status_rule=validate_attachment_update,
        returns_deleted=True,
        unconditional_update=False,
        status_keeps_meta=True,
        meta_steps="A",
    ),
    row=lambda tree, now: [
        name_of(tree),
        part_of(tree, "spec").get("attacher", ""),
        part_of(part_of(tree, "spec"), "source").get("persistentVolumeName") or "",
        part_of(tree, "spec").get("nodeName", ""),
        bool(part_of(tree, "status").get("attached")),
        age_of(tree, now),
    ],
)
