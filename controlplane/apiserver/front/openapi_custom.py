"""OpenAPI of custom resources, in version 3 and in version 2: types, list types and operations.

A definition's schema is published as its structural form, with the fields that every object has. Version 2
cannot express alternatives, nullable fields and untyped ones, so these lose what would mislead its clients.
The types that all documents share (ObjectMeta, Status, DeleteOptions ...) and the descriptions of parameters are
data, `schema/data/openapi.json.gz`: as API server 1.36 publishes them, in the words of the Kubernetes authors
(Apache License 2.0), because clients compare and cache the documents.
Upstream: apiextensions-apiserver pkg/controller/openapi/builder/builder.go, .../openapi/v2/conversion.go,
pkg/apiserver/schema/{kubeopenapi,unfold}.go; kube-openapi pkg/builder, pkg/builder3.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from attrs import frozen

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.custom.resources import CustomResource
from controlplane.apiserver.kinds.custom.schemas import PRESERVE
from controlplane.apiserver.kinds.custom.structural import inconvertible, structural_errors
from controlplane.apiserver.schema.resources import ResourceInfo
from controlplane.apiserver.schema.types import load_data

__all__ = ["Published", "document", "model_name", "published_type", "published_v2"]

_V3: Final = "#/components/schemas/"
_V2: Final = "#/definitions/"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"
_GVK: Final = "x-kubernetes-group-version-kind"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_CONVENTIONS: Final = (
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
)
_METADATA_TEXT: Final = f"Standard object's metadata. More info: {_CONVENTIONS}#metadata"
_LIST_METADATA_TEXT: Final = f"Standard list metadata. More info: {_CONVENTIONS}#types-kinds"
_EMBEDDED_TEXTS: Final = {
    "apiVersion": "apiVersion defines the versioned schema of this representation of an object. "
    f"More info: {_CONVENTIONS}#resources",
    "kind": "kind is a string value representing the type of this object. In CamelCase. "
    f"More info: {_CONVENTIONS}#types-kinds",
}
_INFO: Final = {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}


# -- shared types --------------------------------------------------------------------------------


@cache
def published_type(name: str, *, old: bool = False) -> Tree | None:
    """The schema of a type that all documents share, None for others; `old`: in the form of version 2."""
    found: Tree | None = load_data("openapi")["types"].get(name)
    return _as_v2(found) if old and found is not None else found


def _as_v2(value: Any) -> Any:
    """A shared type with bare references to the definitions of version 2."""
    if isinstance(value, list):
        return [_as_v2(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {key: _as_v2(item) for key, item in value.items() if key not in ("allOf", "default")}
    for part in value.get("allOf") or ():
        made.update(_as_v2(part))
    if isinstance(made.get("$ref"), str):
        made["$ref"] = made["$ref"].replace(_V3, _V2)
    return made


@cache
def _needed(root: str) -> tuple[str, ...]:
    """A shared type and those that it refers to."""
    found: dict[str, None] = {}
    todo = [root]
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = None
            todo += _references(published_type(name))
    return tuple(found)


def _references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [name for item in value for name in _references(item)]
    if not isinstance(value, dict):
        return []
    own = value.get("$ref")
    names = [own.removeprefix(_V3)] if isinstance(own, str) else []
    return names + [name for item in value.values() for name in _references(item)]


# -- schemas -------------------------------------------------------------------------------------

_TEXTS: Final = ("type", "description", "title", "format", "pattern")
_FLAGS: Final = (
    "nullable",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "uniqueItems",
    PRESERVE,
    _EMBEDDED,
    _INT_OR_STRING,
)
_VALUES: Final = (
    "default",
    "maximum",
    "minimum",
    "maxLength",
    "minLength",
    "maxItems",
    "minItems",
    "multipleOf",
    "maxProperties",
    "minProperties",
    "externalDocs",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
)
_LISTS: Final = ("enum", "required", "x-kubernetes-list-map-keys", "x-kubernetes-validations")
_EITHER: Final = [{"type": "integer"}, {"type": "string"}]


def _plain(schema: Tree) -> Tree:
    """Return a schema's own keywords, without its parts and without empty values."""
    made = {key: schema[key] for key in _TEXTS if schema.get(key)}
    made.update((key, True) for key in _FLAGS if schema.get(key))
    made.update((key, schema[key]) for key in _VALUES if schema.get(key) is not None)
    made.update((key, schema[key]) for key in _LISTS if schema.get(key))
    if schema.get("example") not in (None, "", [], {}):
        made["example"] = schema["example"]
    return made


def _nested(schema: Tree) -> Tree:
    """A schema within a junctor."""
    made = {**_plain(schema), **_junctors(schema)}
    if isinstance(schema.get("items"), dict):
        made["items"] = _nested(schema["items"])
    if schema.get("properties"):
        made["properties"] = {key: _nested(part) for key, part in schema["properties"].items()}
    return made


def _junctors(schema: Tree) -> Tree:
    made: Tree = {
        key: [_nested(part) for part in schema[key]]
        for key in ("allOf", "anyOf", "oneOf")
        if schema.get(key)
    }
    if schema.get("not") is not None:
        made["not"] = _nested(schema["not"])
    return made


def _unfolded(junctors: Tree) -> Tree:
    """The junctors of a field that is an integer or a string, with these two spelled out."""
    every = junctors.get("allOf") or ()
    if junctors.get("anyOf") == _EITHER or (every and every[0].get("anyOf") == _EITHER):
        return junctors
    if "anyOf" not in junctors:
        return {**junctors, "anyOf": _EITHER}
    return {**junctors, "allOf": [{"anyOf": _EITHER}, *every]}


def _structure(schema: Tree, *, old: bool) -> Tree:
    """The published form of a structural schema; `old`: of what version 2 can express of it."""
    made = _plain(schema)
    parts: Tree = {}
    if schema.get("items") is not None:
        parts["items"] = _structure(schema["items"], old=old)
    if schema.get("properties"):
        parts["properties"] = {
            key: _structure(part, old=old) for key, part in schema["properties"].items()
        }
    more = schema.get("additionalProperties")
    if more is not None:
        parts["additionalProperties"] = (
            _structure(more, old=old) if isinstance(more, dict) else bool(more)
        )
    if old:
        _restrict(made, parts, schema)
    else:
        junctors = _junctors(schema)
        made.update(_unfolded(junctors) if schema.get(_INT_OR_STRING) else junctors)
    made.update(parts)
    if made.get(_EMBEDDED) and not (old and made.get(PRESERVE)):
        given = made.get("properties") or {}
        made["properties"] = {**given, **_head_fields(old=old, texts=_EMBEDDED_TEXTS)}
        required = list(made.get("required") or ())
        made["required"] = [*required, *(k for k in ("kind", "apiVersion") if k not in required)]
    return made


def _restrict(made: Tree, parts: Tree, schema: Tree) -> None:
    """Take away what clients of version 2 would misread: they refuse fields that they cannot place."""
    made.pop("default", None)
    if made.pop("nullable", None):
        made.pop("type", None)
        parts.pop("items", None)
        parts.pop("properties", None)
    if made.get(PRESERVE):
        parts.pop("items", None)
        parts.pop("properties", None)
    kind = made.get("type")
    if (kind == "array" and "items" not in parts) or (kind == "object" and made.get(PRESERVE)):
        del made["type"]
    if "required" not in made:
        return
    known = schema.get("properties") or {} if "properties" in parts else {}
    left = [name for name in made["required"] if not (known.get(name) or {}).get("nullable")]
    more = schema.get("additionalProperties")
    if isinstance(more, dict) and more.get("nullable"):
        left = []
    made["required"] = left
    if not left:
        del made["required"]


def _head_fields(
    *, old: bool, metadata: str = "ObjectMeta", texts: Mapping[str, str] | None = None
) -> Tree:
    """The fields that every object has."""
    known = published_type(f"{_META}DeleteOptions")
    assert known is not None
    made: Tree = {key: dict(known["properties"][key]) for key in ("apiVersion", "kind")}
    for key, text in (texts or {}).items():
        made[key]["description"] = text
    text = _METADATA_TEXT if metadata == "ObjectMeta" else _LIST_METADATA_TEXT
    made["metadata"] = {
        "description": text,
        **_reference(f"{_META}{metadata}", old=old, among=True),
    }
    return made


def _reference(name: str, *, old: bool, among: bool = False) -> Tree:
    """A reference to a type; `among` other keys, where version 3 wraps it."""
    if old:
        return {"$ref": _V2 + name}
    bare = {"$ref": _V3 + name}
    return {"allOf": [bare]} if among else bare


def model_name(info: ResourceInfo, kind: str = "") -> str:
    """The name of a custom resource's type, or of another kind of its group version."""
    reverse = ".".join(reversed(info.group.split(".")))
    return f"{reverse}.{info.version}.{kind or info.kind}"


def _types(info: ResourceInfo, *, old: bool) -> Tree:
    """The type of a custom resource and the type of its lists."""
    custom: CustomResource = info.custom
    given: Tree = custom.schema
    if inconvertible(given) or structural_errors(given, "") or (old and given.get(PRESERVE)):
        own: Tree = {"type": "object"}
    else:
        own = _structure(given, old=old)
        own["properties"] = {**own.get("properties", {}), **_head_fields(old=old)}
    name, list_name = model_name(info), model_name(info, custom.list_kind)
    rows: Tree = {
        "description": f"{custom.list_kind} is a list of {info.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            **_head_fields(old=old, metadata="ListMeta"),
            "items": {
                "description": f"List of {info.resource}. More info: {_CONVENTIONS}",
                "type": "array",
                "items": _reference(name, old=old),
            },
        },
    }
    fields = [{"fieldPath": path} for path in custom.selectable_fields]
    for tree, kind in ((own, info.kind), (rows, custom.list_kind)):
        tree[_GVK] = [{"group": info.group, "kind": kind, "version": info.version}]
        if fields:
            tree["x-kubernetes-selectable-fields"] = fields
    return {name: custom.strategy.finish(own), list_name: rows}


# -- operations ----------------------------------------------------------------------------------

_LIST_OPTIONS: Final = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
)
_WRITE_OPTIONS: Final = ("dryRun", "fieldManager", "fieldValidation")
_OPTIONS: Final = {
    "list": _LIST_OPTIONS,
    "deletecollection": _LIST_OPTIONS,
    "get": ("resourceVersion",),
    "post": _WRITE_OPTIONS,
    "put": _WRITE_OPTIONS,
    "patch": (*_WRITE_OPTIONS, "force"),
    "delete": (
        "dryRun",
        "gracePeriodSeconds",
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "orphanDependents",
        "propagationPolicy",
    ),
}
_METHODS: Final = {"list": "get", "deletecollection": "delete"}
_VERBS: Final = {"get": "read", "put": "replace", "post": "create"}
_FORMATS: Final = ("application/json", "application/yaml")
_PATCHES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
)
_MORE_ANSWERS: Final = {
    "post": ((202, "Accepted"), (201, "Created")),
    "delete": ((202, "Accepted"),),
    "put": ((201, "Created"),),
}


@frozen
class _Operation:
    """One operation of a path. `reads` and `gives` are names of types."""

    action: str
    description: str
    id: str
    tag: str
    reads: str
    gives: str

    @property
    def method(self) -> str:
        """The HTTP method, as a path's key."""
        return _METHODS.get(self.action, self.action)


def _paths(info: ResourceInfo) -> Iterable[tuple[str, list[_Operation]]]:
    """The paths of a custom resource and its subresources, with their operations."""
    root = f"/apis/{info.group}/{info.version}"
    own, rows = model_name(info), model_name(info, info.custom.list_kind)
    if info.namespaced:
        yield f"{root}/{info.resource}", [_operation(info, "list", rows, everywhere=True)]
        root += "/namespaces/{namespace}"
    root += f"/{info.resource}"
    many = (("list", rows), ("post", own), ("deletecollection", f"{_META}Status"))
    yield root, [_operation(info, action, gives) for action, gives in many]
    one = (("get", own), ("put", own), ("delete", f"{_META}Status"), ("patch", own))
    yield f"{root}/{{name}}", [_operation(info, action, gives) for action, gives in one]
    for sub, gives in (("status", own), ("scale", _SCALE)):
        if sub in info.subresources:
            yield (
                f"{root}/{{name}}/{sub}",
                [_operation(info, action, gives, sub) for action in ("get", "put", "patch")],
            )


def _operation(
    info: ResourceInfo, action: str, gives: str, sub: str = "", *, everywhere: bool = False
) -> _Operation:
    verb = _VERBS.get(action, action)
    named = "ForAllNamespaces" if everywhere else sub.capitalize()
    scope = "Namespaced" if info.namespaced and not everywhere else ""
    group = info.group.removesuffix(".k8s.io")
    place = _identifier(group, upper=True) + _identifier(info.version, upper=True)
    # The verb of "deletecollection" is "delete" to upstream.
    head, rest = ("delete", "Collection") if verb == "deletecollection" else (verb, "")
    reads = {
        "post": gives,
        "put": gives,
        "patch": f"{_META}Patch",
        "delete": f"{_META}DeleteOptions",
    }.get(action, "")
    return _Operation(
        action,
        _description(info.kind, verb, sub),
        head + place + _identifier(f"{rest}{scope}{info.kind}{named}", upper=True),
        f"{_identifier(group)}_{_identifier(info.version)}",
        reads,
        gives,
    )


def _identifier(text: str, *, upper: bool = False) -> str:
    """A text as part of an operation's identifier: a letter after what is left out is a capital."""
    made = ""
    for index, char in enumerate(text):
        if char.isalpha() or char == "_" or (index and char.isdecimal()):
            made += char.upper() if upper else char
            upper = False
        else:
            upper = True
    return made


def _description(kind: str, verb: str, sub: str) -> str:
    part = f" {sub} of" if sub else ""
    if verb == "patch":
        return f"partially update{part} the specified {kind}"
    if verb == "deletecollection":
        return f"delete collection of {kind}"
    if verb == "list":
        return f"list objects of kind {kind}"
    if verb in ("create", "delete"):
        return f"{verb}{_article(kind)}{kind}"
    return f"{verb}{part} the specified {kind}"


def _article(noun: str) -> str:
    """The article before a kind, with blanks; none before a plural."""
    if noun.endswith("s") and not noun.endswith("ss"):
        return " "
    return " an " if noun[:1].lower() in "aeiou" else " a "


def _parameters(info: ResourceInfo, path: str, action: str) -> list[Tree]:
    """Parameters of an operation in path and query: name, place, type, description; sorted by name."""
    known: Tree = load_data("openapi")["parameters"]
    found: list[Tree] = []
    for name in ("pretty", *_OPTIONS[action]):
        key = f"{name} of patches" if (name, action) == ("fieldManager", "patch") else name
        found.append({"name": name, "in": "query", **known[key]})
    if "{namespace}" in path:
        found.append({"name": "namespace", "in": "path", **known["namespace"]})
    if "{name}" in path:
        text = f"name of the {info.kind}"
        found.append({"name": "name", "in": "path", "type": "string", "description": text})
    return sorted(found, key=lambda each: str(each["name"]))


def _split(
    info: ResourceInfo, path: str, operations: list[_Operation]
) -> tuple[list[Tree], list[list[Tree]]]:
    """The parameters that all operations of a path share, and those of each operation."""
    lists = [_parameters(info, path, each.action) for each in operations]
    common = {each["name"] for each in lists[0]}
    for found in lists[1:]:
        common &= {each["name"] for each in found}
    shared = [each for each in lists[0] if each["name"] in common]
    return shared, [[each for each in found if each["name"] not in common] for found in lists]


# -- version 3 -----------------------------------------------------------------------------------


def document(infos: Iterable[ResourceInfo]) -> Tree:
    """The document of one group version that has custom resources only."""
    paths: Tree = {}
    schemas: Tree = {}
    for info in infos:
        for path, operations in _paths(info):
            paths[path] = _path_v3(info, path, operations)
        schemas.update(_types(info, old=False))
        schemas.update((name, published_type(name)) for name in _shared_types(info))
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.items()))},
    }


def _shared_types(info: ResourceInfo) -> Iterable[str]:
    for root in ("DeleteOptions", "ObjectMeta", "Patch", "Status"):
        yield from _needed(f"{_META}{root}")
    if "scale" in info.subresources:
        yield from _needed(_SCALE)


def _path_v3(info: ResourceInfo, path: str, operations: list[_Operation]) -> Tree:
    shared, own = _split(info, path, operations)
    made: Tree = {
        each.method: _operation_v3(info, each, given)
        for each, given in zip(operations, own, strict=True)
    }
    made["parameters"] = [_parameter_v3(each) for each in shared]
    return made


def _parameter_v3(given: Tree) -> Tree:
    required = {"required": True} if given["in"] == "path" else {}
    return {
        "name": given["name"],
        "in": given["in"],
        "description": given["description"],
        **required,
        "schema": {"type": given["type"], "uniqueItems": True},
    }


def _content(name: str, media: Iterable[str]) -> Tree:
    return {each: {"schema": _reference(name, old=False)} for each in media}


def _gvk(info: ResourceInfo) -> Tree:
    return {"group": info.group, "version": info.version, "kind": info.kind}


def _operation_v3(info: ResourceInfo, given: _Operation, parameters: list[Tree]) -> Tree:
    made: Tree = {"tags": [given.tag], "description": given.description, "operationId": given.id}
    if parameters:
        made["parameters"] = [_parameter_v3(each) for each in parameters]
    if given.reads:
        media = _PATCHES if given.action == "patch" else _FORMATS
        made["requestBody"] = {"content": _content(given.reads, media)}
        if given.action != "delete":
            made["requestBody"]["required"] = True
    answers = {"200": {"description": "OK", "content": _content(given.gives, _FORMATS)}}
    for code, text in _MORE_ANSWERS.get(given.action, ()):
        answers[str(code)] = {"description": text, "content": _content(given.gives, _FORMATS)}
    made["responses"] = {**answers, "401": {"description": "Unauthorized"}}
    return {**made, "x-kubernetes-action": given.action, _GVK: _gvk(info)}


# -- version 2 -----------------------------------------------------------------------------------


@frozen
class Published:
    """The part of a custom resource in the document of version 2."""

    paths: Tree
    definitions: Tree
    parameters: Tree


def published_v2(info: ResourceInfo) -> Published:
    """The paths, definitions and shared parameters that a custom resource adds to version 2."""
    parameters: Tree = {}
    paths = {
        path: _path_v2(info, path, operations, parameters) for path, operations in _paths(info)
    }
    definitions = _types(info, old=True)
    definitions.update((name, published_type(name, old=True)) for name in _shared_types(info))
    return Published(paths, definitions, parameters)


def _path_v2(info: ResourceInfo, path: str, operations: list[_Operation], known: Tree) -> Tree:
    shared, own = _split(info, path, operations)
    made: Tree = {
        each.method: _operation_v2(info, each, given, known)
        for each, given in zip(operations, own, strict=True)
    }
    made["parameters"] = [_parameter_v2(each, known) for each in shared]
    return made


def _parameter_v2(given: Tree, known: Tree) -> Tree:
    required = {"required": True} if given["in"] == "path" else {}
    tree = {
        "uniqueItems": True,
        "type": given["type"],
        "description": given["description"],
        "name": given["name"],
        "in": given["in"],
        **required,
    }
    # Old releases of kubectl look for these two in the operation itself.
    return tree if tree["name"] in ("name", "dryRun", "fieldValidation") else _named(tree, known)


def _named(tree: Tree, known: Tree) -> Tree:
    """A reference to a parameter among those `known` to the document, where it is added."""
    name = f"{tree['name']}-{_parameter_hash(tree)}"
    known[name] = tree
    return {"$ref": f"#/parameters/{name}"}


def _parameter_hash(tree: Tree) -> str:
    """The hash in the name of a shared parameter: FNV-1 of its JSON. Upstream: kube-openapi pkg/builder."""
    text = json.dumps(tree, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    digest = 0xCBF29CE484222325
    for byte in text.encode():
        digest = (digest * 0x100000001B3 & (1 << 64) - 1) ^ byte
    return base64.urlsafe_b64encode(digest.to_bytes(8, "big")[:6]).decode()


def _body_v2(given: _Operation, known: Tree) -> Tree:
    required = {} if given.action == "delete" else {"required": True}
    tree = {"name": "body", "in": "body", **required, "schema": {"$ref": _V2 + given.reads}}
    return _named(tree, known) if given.reads.startswith(_META) else tree


def _operation_v2(
    info: ResourceInfo, given: _Operation, parameters: list[Tree], known: Tree
) -> Tree:
    made: Tree = {
        "description": given.description,
        "consumes": list(_PATCHES if given.action == "patch" else _FORMATS),
        "produces": list(_FORMATS),
        "schemes": ["https"],
        "tags": [given.tag],
        "operationId": given.id,
    }
    listed = [_body_v2(given, known)] if given.reads else []
    listed += [_parameter_v2(each, known) for each in parameters]
    if listed:
        made["parameters"] = listed
    schema = {"$ref": _V2 + given.gives}
    answers: Tree = {"200": {"description": "OK", "schema": schema}}
    for code, text in _MORE_ANSWERS.get(given.action, ()):
        answers[str(code)] = {"description": text, "schema": schema}
    made["responses"] = {**answers, "401": {"description": "Unauthorized"}}
    return {**made, "x-kubernetes-action": given.action, _GVK: _gvk(info)}
