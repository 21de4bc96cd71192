"""Files of kwokctl: templates of `kwokctl scale`, and recordings, which are snapshots followed by changes.

A KwokctlResource becomes as many objects as its annotation `emulate.controlplane/replicas` says, with the names that
kwokctl gives them. A ResourcePatch is a change at a time after the start: a creation, a strategic merge patch of the
object as it was recorded, or a deletion. Upstream: sigs.k8s.io/kwok pkg/kwokctl/{scale,recording,snapshot}.
"""

from __future__ import annotations

import copy
import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve

from controlplane.api.tree import Tree
from controlplane.scenarios.inputs.simulator_files import ADD, DELETE, UPDATE, Change

if TYPE_CHECKING:
    from controlplane.apiserver.schema.resources import ResourceTable
    from controlplane.scenarios.inputs.manifests import Manifest

__all__ = ["REPLICAS", "is_template", "recorded", "scaled"]

_TEMPLATE: Final = ("config.kwok.x-k8s.io/v1alpha1", "KwokctlResource")
REPLICAS: Final = "emulate.controlplane/replicas"
"""Annotation of a KwokctlResource: how many objects it becomes, as `kwokctl scale --replicas`."""
MOST_REPLICAS: Final = 1_000_000
SCALED: Final = "kwok.x-k8s.io/kwokctl-scale"
"""Label of the objects with the name of their template."""
_DIGITS: Final = 6
"""Digits of the number in a name."""


def is_template(tree: Tree) -> bool:
    """Return whether a document is a template of `kwokctl scale`."""
    return (tree.get("apiVersion"), tree.get("kind")) == _TEMPLATE


# -- templates -------------------------------------------------------------------------------------


def _add_ip(address: str, index: int) -> str:
    return str(ipaddress.ip_address(str(address)) + int(index))


def _add_cidr(network: str, index: int) -> str:
    given = ipaddress.ip_interface(str(network))
    step = given.network.num_addresses
    return f"{given.ip + int(index) * step}/{given.network.prefixlen}"


def scaled(manifest: Manifest) -> Iterator[Manifest]:
    """Yield the objects of a template, each where the template stands. Raises ManifestError."""
    from controlplane.kwok.rendering import RenderError, renderer

    meta = manifest.tree["metadata"]
    base = str(meta["name"])
    parameters = manifest.tree.get("parameters") or {}
    if not isinstance(parameters, Mapping):
        raise manifest.error("parameters", "expected an object")
    template = manifest.tree.get("template")
    if not isinstance(template, str) or not template:
        raise manifest.error("template", "expected a text")
    for index in range(_replicas(manifest)):
        name = f"{base}-{index:0{_DIGITS}}"
        functions: dict[str, Any] = {
            "Name": lambda name=name: name,
            "Namespace": lambda: meta.get("namespace", ""),
            "Index": lambda index=index: index,
            "AddCIDR": _add_cidr,
            "AddIP": _add_ip,
        }
        try:
            tree = renderer(functions)(template, parameters)
        except (RenderError, ValueError) as error:
            raise manifest.error("template", str(error)) from None
        if not isinstance(tree, dict) or not tree.get("apiVersion") or not tree.get("kind"):
            raise manifest.error("template", "expected an object with apiVersion and kind")
        inner = {**(tree.get("metadata") or {}), "name": name}
        inner["labels"] = {**(inner.get("labels") or {}), SCALED: base}
        yield evolve(manifest, tree={**tree, "metadata": inner})


def _replicas(manifest: Manifest) -> int:
    notes = manifest.tree["metadata"].get("annotations") or {}
    text = str(notes.get(REPLICAS, ""))
    if not text.isdecimal() or not 0 < int(text) <= MOST_REPLICAS:
        field = f"metadata.annotations[{REPLICAS}]"
        raise manifest.error(field, f"{text!r}: expected a number from 1 to {MOST_REPLICAS}")
    return int(text)


# -- recordings ------------------------------------------------------------------------------------


_Key = tuple[str, str, str, str]
"""Group, resource, namespace and name."""


def recorded(
    snapshot: Sequence[Manifest], patches: Sequence[Manifest]
) -> Iterator[tuple[Change, Manifest]]:
    """Yield the changes of a recording that begins with a snapshot, in their order, each with its document.

    A change has the whole object, and as its time the nanoseconds since the start. Raises ManifestError.
    """
    from controlplane.apiserver.schema.resources import builtin_resources

    table = builtin_resources()
    objects: dict[_Key, Tree] = {}
    for each in snapshot:
        objects[_key_of(each.tree, table)] = each.tree
    for patch in patches:
        yield _change(patch, objects, table), patch


def _key_of(tree: Tree, table: ResourceTable) -> _Key:
    info = table.by_kind(str(tree.get("apiVersion")), str(tree.get("kind")))
    where = str(tree["metadata"].get("namespace", "")), str(tree["metadata"].get("name", ""))
    if info is not None:
        return info.group, info.resource, *where
    group, _, _ = str(tree.get("apiVersion")).rpartition("/")
    return group, f"{str(tree.get('kind')).lower()}s", *where  # the usual name of a custom resource


def _change(manifest: Manifest, objects: dict[_Key, Tree], table: ResourceTable) -> Change:
    tree = manifest.tree
    resource, target = _mapping(manifest, "resource"), _mapping(manifest, "target")
    key = (
        str(resource.get("group") or ""),
        str(resource.get("resource") or ""),
        str(target.get("namespace") or ""),
        str(target.get("name") or ""),
    )
    at = tree.get("durationNanosecond")
    if isinstance(at, bool) or not isinstance(at, int) or at < 0:
        raise manifest.error("durationNanosecond", f"{at!r}: expected nanoseconds")
    method = tree.get("method")
    if method == "create":
        objects[key] = _mapping(manifest, "template")
        return Change(at, ADD, objects[key], manifest.line)
    if method not in ("patch", "delete"):
        raise manifest.error("method", f"{method!r}: expected create, patch or delete")
    found = objects.get(key)
    if found is None:
        raise manifest.error("target", f"no {key[1]} {'/'.join(filter(None, key[2:]))} before")
    if method == "delete":
        return Change(at, DELETE, objects.pop(key), manifest.line)
    objects[key] = _patched(manifest, found, table)
    return Change(at, UPDATE, objects[key], manifest.line)


def _patched(manifest: Manifest, found: Tree, table: ResourceTable) -> Tree:
    from controlplane.apiserver.requests.patching.merge import merge_patch
    from controlplane.apiserver.requests.patching.strategic import PatchError, strategic_patch
    from controlplane.apiserver.schema.types import struct_type

    patch = copy.deepcopy(_mapping(manifest, "template"))
    info = table.by_kind(str(found.get("apiVersion")), str(found.get("kind")))
    if info is None or not info.type_name:
        return merge_patch(found, patch)  # type: ignore[no-any-return]
    try:
        return strategic_patch(copy.deepcopy(found), patch, struct_type(info.type_name))
    except PatchError as error:
        raise manifest.error("template", str(error)) from None


def _mapping(manifest: Manifest, field: str) -> Tree:
    found = manifest.tree.get(field)
    if not isinstance(found, dict):
        raise manifest.error(field, "expected an object")
    return found
