"""The kinds that a CustomResourceDefinition serves, as discovery tells of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.version_names import version_preference
from controlplane.client.resources import Resource
from controlplane.controllers.common.rest_mapper import ServedKind

if TYPE_CHECKING:
    from controlplane.api.object import Object

VERBS: Final = (
    "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
)  # fmt: skip


def kinds_of(definition: Object[Any]) -> list[ServedKind]:
    """One kind per served version, the preferred one first; none before the definition is established."""
    tree = definition.tree
    conditions = (tree.get("status") or {}).get("conditions") or ()
    if not any(each["type"] == "Established" and each["status"] == "True" for each in conditions):
        return []
    spec = tree["spec"]
    return [
        ServedKind(
            Resource(spec["group"], version["name"], spec["names"]["plural"]),
            spec["names"]["kind"],
            spec["scope"] == "Namespaced",
            VERBS,
            scalable="scale" in (version.get("subresources") or {}),
        )
        for version in sorted(
            spec["versions"], key=lambda each: version_preference(each["name"]), reverse=True
        )
        if version["served"]
    ]
