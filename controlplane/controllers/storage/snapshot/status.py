"""The status after its content's was copied. Upstream: updateSnapshotStatus and its group twin."""

from __future__ import annotations

from typing import Any

from controlplane.api.quantity import Quantity
from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.controllers.storage.snapshot.objects import SNAPSHOT, Kind, name_of, status_of


def told_by(kind: Kind, content: Tree) -> Tree:
    """A content's status, in the form that its snapshot has it; what the content does not say is absent."""
    status = status_of(content)
    told: Tree = {kind.bound_field: name_of(content)}
    created = status.get("creationTime")
    if created is not None:
        told["creationTime"] = format_time(created) if kind is SNAPSHOT else created
    told["readyToUse"] = status.get("readyToUse") is True
    size = status.get("restoreSize")
    if kind is SNAPSHOT and size is not None:
        told["restoreSize"] = binary_size(size)
    if status.get("error") is not None:
        told["error"] = status["error"]
    return told


def copied(kind: Kind, status: Tree | None, told: Tree) -> Tree | None:
    """The new status, None if there is nothing to write. Times and names are set once, sizes while they are zero.

    As long as there is an error it is written again: upstream compares the addresses of the two times.
    """
    if status is None:
        return told
    new = dict(status)
    for field in (kind.bound_field, "creationTime", "volumeGroupSnapshotName"):
        if new.get(field) is None and told.get(field) is not None:
            new[field] = told[field]
    if new.get("readyToUse") is not told["readyToUse"]:
        new["readyToUse"] = told["readyToUse"]
        if told["readyToUse"]:
            new.pop("error", None)
    size = told.get("restoreSize")
    if size is not None and (
        new.get("restoreSize") is None or (_is_zero(new["restoreSize"]) and not _is_zero(size))
    ):
        new["restoreSize"] = size
    error = told.get("error")
    if error is None:
        new.pop("error", None)
        return None if new == status else new
    again = new.get("error") is not None
    new["error"] = error
    return new if again or new != status else None


def _is_zero(size: Any) -> bool:
    return not Quantity.parse(str(size)).value()


_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def binary_size(count: int) -> str:
    """A number of bytes as a quantity of the binary kind: 104857600 is 100Mi."""
    unit = 0
    while count and count % 1024 == 0 and unit < len(_UNITS) - 1:
        count //= 1024
        unit += 1
    return f"{count}{_UNITS[unit]}"
