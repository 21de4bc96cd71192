"""The protobuf numbers of fields: package data, read from the published types of Kubernetes' API.

An entry is `NAME=2`, or `~NAME=2` for a plain Go field (no pointer), which is on the wire zero or not
and whose zero is the same as absence; a number that JSON always shows needs no mark. `*NAME=2` is a list
that is a message of its own, with the items as field 1. `&TYPE=2` stands for a message whose fields are
the outer object's own in JSON.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from controlplane.apiserver.schema.protobuf.definitions import LISTED
from controlplane.apiserver.schema.types import Field, Kind, load_data, struct_type

__all__ = ["META", "Numbered", "Unnumbered", "complete", "fields_of", "numbers", "type_named"]

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_FREE_KINDS: Final = {
    "PartialObjectMetadata": META + "PartialObjectMetadata",
    "PartialObjectMetadataList": META + "PartialObjectMetadataList",
    "DeleteOptions": META + "DeleteOptions",
}
"""Kinds that every group knows, or that are no resource."""


class Unnumbered(ValueError):
    """A type that the table does not have."""


Numbered = tuple[str, Field | None]
"""Mark and field: the mark is "~", "*", or the name of the part that stands there."""
_WRAPPED: Final = {
    "apimachinery.pkg.apis.meta.v1.APIResource": "~name=1 ~singularName=6 namespaced=2 ~group=8 ~version=9 ~kind=3 "
    "*verbs=4 shortNames=5 categories=7 ~storageVersionHash=10"
}
"""Types with such a list, which the published types do not tell apart."""


@cache
def numbers() -> dict[str, str]:
    """Fields by number, per type (without `io.k8s.`)."""
    found: dict[str, str] = load_data("protobuf")["numbers"]
    return {**found, **LISTED, **_WRAPPED}


@cache
def _kinds() -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for name, declared in load_data("types")["types"].items():
        for known in declared.get("gvk", ()):
            group, version = known["group"], known["version"]
            found[f"{group}/{version}" if group else version, known["kind"]] = name
    return found


def type_named(api_version: str, kind: str) -> str:
    """The type of a kind. Raises Unnumbered."""
    found = _FREE_KINDS.get(kind) or _kinds().get((api_version, kind))
    if found is None:
        raise Unnumbered(f"unknown kind {api_version} {kind}")
    return found


@cache
def fields_of(name: str, listing: str = "") -> dict[int, Numbered]:
    """Number to (mark, field) of a type; `listing` names the part of it that a message holds."""
    if name == _FREE_KINDS["PartialObjectMetadata"]:
        return {1: ("", Field("metadata", Kind.STRUCT, META + "ObjectMeta"))}
    if name == _FREE_KINDS["PartialObjectMetadataList"]:
        item = Field("", Kind.STRUCT, META + "PartialObjectMetadata")
        return {
            1: ("", Field("metadata", Kind.STRUCT, META + "ListMeta")),
            2: ("", Field("items", Kind.LIST, "", element=item)),
        }
    listed = numbers().get(listing or name.removeprefix("io.k8s."))
    if listed is None:
        raise Unnumbered(f"unknown type {name}")
    struct = struct_type(name)
    found: dict[int, Numbered] = {}
    for entry in listed.split():
        key, _, number = entry.rpartition("=")
        if key.startswith("&"):
            found[int(number)] = (key[1:], None)
        elif key.lstrip("~*") in struct.fields:
            mark = key[0] if key[0] in "~*" else ""
            found[int(number)] = (mark, struct.fields[key.lstrip("~*")])
    return found


@cache
def complete(name: str, listing: str = "") -> bool:
    """Return whether every field of a type has a number here: any other number is then unknown upstream, too."""
    if listing or name in _FREE_KINDS.values():
        return True
    numbered = fields_of(name).values()
    found = {field.name for _, field in numbered if field is not None}
    for part in [mark for mark, field in numbered if field is None]:
        found |= {field.name for _, field in fields_of(name, part).values() if field is not None}
    return set(struct_type(name).fields) <= found | {"apiVersion", "kind"}
