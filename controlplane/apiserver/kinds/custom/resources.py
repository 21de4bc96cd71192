"""One version of a custom resource: reading, rules of its kind, scale, tables.

Upstream: apiextensions-apiserver pkg/apiserver/customresource_handler.go and
pkg/registry/customresource.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from attrs import field, frozen

from controlplane.api.go_values import go_type, go_value
from controlplane.api.jsonpath import JSONPath, parse
from controlplane.api.object import Object
from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.api.version_names import version_preference
from controlplane.apiserver.kinds.conversion import unreadable_kind
from controlplane.apiserver.kinds.custom.applied_rules import Ruled, apply_rules, ruled_places
from controlplane.apiserver.kinds.custom.columns import Columns
from controlplane.apiserver.kinds.custom.converters import Converter, converter_of, webhook_of
from controlplane.apiserver.kinds.custom.correlation import Correlated
from controlplane.apiserver.kinds.custom.embedded_resources import (
    META,
    InvalidEmbeddedError,
    coerced,
    embedded_places,
    validate_embedded,
)
from controlplane.apiserver.kinds.custom.schemas import (
    EMBEDDED,
    PRESERVE,
    UNSET,
    defaulted,
    pruned,
    without_nulls,
)
from controlplane.apiserver.kinds.custom.stored_numbers import stored_numbers
from controlplane.apiserver.kinds.custom.validation import check_lists, validate
from controlplane.apiserver.kinds.metadata import finalizer_warnings
from controlplane.apiserver.kinds.strategy import Context, Strategy, same, with_status, without
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.codec import (
    DecodeError,
    WrittenFloat,
    check_numbers,
    decode,
    kind_error,
    strict_issues,
)
from controlplane.apiserver.schema.field_errors import FieldError, invalid
from controlplane.apiserver.schema.resources import ResourceInfo, SubresourceInfo
from controlplane.apiserver.schema.types import DEDUCED, Field, Kind, StructType
from controlplane.sharing.memory import IdentityCache

__all__ = ["CustomResource", "resource_of", "version_of"]

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation"
)
_BLOCKING = {
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
}
_APPLY = "application/apply-patch"
_GO_TYPES = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    WrittenFloat: "float64",
    list: "[]interface {}",
}
_MOST_REPLICAS = 2**31 - 1


# -- types for server-side apply -----------------------------------------------------------------


@frozen(eq=False)
class _CustomField(Field):
    """A field whose struct type comes from a schema."""

    inner: StructType | None = field(default=None, kw_only=True)

    @property
    def struct(self) -> StructType:
        """The type of this field."""
        assert self.inner is not None
        return self.inner


_LEAVES = {"boolean": Kind.BOOL, "integer": Kind.INT, "number": Kind.NUMBER}
_TEXT_FORMATS = ("", "byte")
"""Formats of strings that stay strings; a value of another format may be any scalar."""


def _field_of(name: str, schema: Tree, *, keeps: bool = False) -> Field:
    """Return the type of a part of the schema, as kube-openapi pkg/schemaconv/openapi.go converts it.

    `keeps`: a part around it preserves unknown fields, which all parts below it do then.
    """
    kind = schema.get("type", "")
    keeps = keeps or bool(schema.get(PRESERVE))
    if kind in _LEAVES:
        return Field(name, _LEAVES[kind], "", default=schema.get("default"))
    if kind == "string":
        plain = schema.get("format", "") in _TEXT_FORMATS
        leaf = Kind.STRING if plain else Kind.INT_OR_STRING
        return Field(name, leaf, "", default=schema.get("default"))
    if kind == "array" and isinstance(schema.get("items"), dict):
        return Field(
            name,
            Kind.LIST,
            "",
            element=_field_of("", schema["items"], keeps=keeps),
            list_type=schema.get("x-kubernetes-list-type", "atomic"),
            list_keys=tuple(schema.get("x-kubernetes-list-map-keys", ())),
        )
    map_type = schema.get("x-kubernetes-map-type", "")
    more = schema.get("additionalProperties")
    if kind == "object" and (schema.get("properties") or schema.get(EMBEDDED)):
        struct = _struct_of(name, schema, keeps=keeps)
        return _CustomField(name, Kind.STRUCT, "", map_type=map_type, inner=struct)
    if kind == "object":
        element = _field_of("", more, keeps=keeps) if isinstance(more, dict) else DEDUCED
        return Field(name, Kind.MAP, "", element=element, map_type=map_type)
    return DEDUCED


def _struct_of(name: str, schema: Tree, *, keeps: bool = False) -> StructType:
    keeps = keeps or bool(schema.get(PRESERVE))
    found = schema.get("properties") or {}
    fields = {key: _field_of(key, inner, keeps=keeps) for key, inner in found.items()}
    if schema.get(EMBEDDED):
        fields |= _META_FIELDS
    return StructType(name, fields, open=keeps)


_META_FIELDS = {
    "apiVersion": Field("apiVersion", Kind.STRING, ""),
    "kind": Field("kind", Kind.STRING, ""),
    "metadata": Field("metadata", Kind.STRUCT, META),
}


# -- paths ---------------------------------------------------------------------------------------


def steps(path: str) -> list[str]:
    """The names in the path of a scale's field. Upstream: splitReplicasPath, which knows no brackets."""
    return path.removeprefix(".").split(".")


def _nested(tree: Any, names: list[str]) -> tuple[Any, str]:
    """Return the value at a path of names, or the error if a part of the path is not a map."""
    for name in names:
        if not isinstance(tree, dict):
            if tree is None:
                return None, ""
            shown = str(tree).lower() if isinstance(tree, bool) else tree
            kind = _GO_TYPES.get(type(tree), type(tree).__name__)
            return None, f"{shown} is of the type {kind}, expected map[string]interface{{}}"
        if name not in tree:
            return None, ""
        tree = tree[name]
    return tree, ""


def _with_value(tree: Any, names: list[str], value: Any) -> Tree:
    base = tree if isinstance(tree, dict) else {}
    if len(names) == 1:
        return {**base, names[0]: value}
    return {**base, names[0]: _with_value(base.get(names[0]), names[1:], value)}


# -- rules of the kind ---------------------------------------------------------------------------


class CustomStrategy(Strategy):
    """The rules that all custom resources share."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Status belongs to its subresource; generations count from one."""
        if _custom(ctx).has_status:
            tree = without(tree, "status")
        return {**tree, "metadata": {**tree["metadata"], "generation": 1}}

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Any change outside of metadata and status is a new generation."""
        custom = _custom(ctx)
        if custom.has_status:
            if "status" not in old and custom.default_status is not None:
                old = {**old, "status": custom.default_status}
            new = with_status(new, old)
        if any(
            not same(new, old, key)
            for key in {*new, *old}
            if key
            not in ("metadata", "apiVersion", *(("status",) if _custom(ctx).has_status else ()))
        ):
            meta = new["metadata"]
            generation = old["metadata"].get("generation", 0) + 1
            new = {**new, "metadata": {**meta, "generation": generation}}
        return new

    def prepare_status_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return a status update that changes only the status and the managed fields."""
        meta = with_status(old["metadata"], new["metadata"], "managedFields")
        meta = with_status(meta, new["metadata"], "resourceVersion")
        return with_status({**old, "metadata": meta}, new)

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """Return the warnings about new finalizers."""
        was = None if old is None else old["metadata"]
        return [] if tree["metadata"] is was else finalizer_warnings(tree["metadata"], was)

    def settles_on_update(self, ctx: Context, sub: str, old: Tree) -> bool:
        """A number of replicas that the schema does not know is stored, though no read shows it."""
        if ctx.request.subresource != "scale":
            return False
        scaled = _custom(ctx).scaled({"metadata": {}}, 1)
        return bool(_custom(ctx).known(scaled) != scaled)

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """The schema and its rules, for a new object."""
        return _custom(ctx).problems(ctx, tree, None)

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """The schema and its rules, for a changed object."""
        return _custom(ctx).problems(ctx, new, old)

    def validate_status_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """The same: the whole object is looked at."""
        return _custom(ctx).problems(ctx, new, old, "status")

    def validate_sub_update(self, ctx: Context, new: Tree, old: Tree, sub: str) -> list[FieldError]:
        """The same: a scale changes the spec."""
        return _custom(ctx).problems(ctx, new, old)

    def prepare_sub_update(self, ctx: Context, new: Tree, old: Tree, sub: str) -> Tree:
        """A changed scale is a changed spec."""
        return self.prepare_update(ctx, new, old)

    def finish(self, tree: Tree) -> Tree:
        """Numbers as they are read back from the storage, where they stand as Go writes them."""
        return stored_numbers(tree)

    def reset_fields(self, sub: str) -> tuple[tuple[str, ...], ...]:
        """Return the fields that a write through the endpoint cannot set."""
        if not self.has_status:
            return ()
        return (("f:metadata",), ("f:spec",)) if sub == "status" else (("f:status",),)


def _custom(ctx: Context) -> CustomResource:
    found: CustomResource = ctx.info.custom
    return found


@frozen(eq=False)
class CustomResource:
    """The facts of one version of a custom resource that the server needs."""

    group: str
    version: str
    kind: str
    list_kind: str
    storage_version: str
    schema: Tree
    scale: Tree | None
    columns: Columns
    selectable_fields: Mapping[str, JSONPath]
    strategy: CustomStrategy
    has_status: bool
    """This version has the status subresource; the version of a write decides."""
    deprecation: str
    """The warning that every request for a deprecated version gets."""
    struct: StructType
    ruled: Ruled
    """The parts of the schema with rules in or below them, by their ids."""
    embedded: frozenset[int]
    """The parts of the schema with embedded resources in or below them, by their ids."""
    default_status: Any
    """The default of a missing status; creation clears the status, and reading supplies it again."""
    stored_schema: Tree | None
    """The schema of the stored version, if this is another one."""
    converter: Converter | None
    """The converter between versions, where more than the version changes."""
    webhook: Tree | None
    """The conversion webhook that is to be called for objects of another version, if there is one."""
    schemas: dict[str, Tree]
    """The schemas of all versions of the definition, by version."""
    first: bool
    """The definition has never changed: objects stored by this version are read as they are."""
    _shown: WeakKeyDictionary[Object, Object] = field(factory=WeakKeyDictionary, init=False)
    """The read forms of stored objects, except of those that are read as they are."""
    _as_is: WeakSet[Object] = field(factory=WeakSet, init=False)

    def read(self, ctx: Context, body: Any, old: Tree | None) -> Tree:
        """A request's body as a pruned, defaulted object of the stored version."""
        if not isinstance(body, dict):
            raise status.bad_request("the object provided is unrecognized")
        problem = kind_error(body)
        if problem:
            raise unreadable_kind(self.kind, problem, body)
        expected = f"{self.group}/{self.version}"
        given = body.get("apiVersion", "")
        if given != expected:
            raise status.bad_request(
                f"the API version in the data ({given}) does not match the expected API version "
                f"({expected})"
            )
        unknown: list[str] = []
        meta_body = body.get("metadata")
        meta_body = {} if meta_body is None else meta_body
        try:
            check_numbers(body)
            meta = decode(META, meta_body)
        except DecodeError as error:
            text = str(error).replace(META, "v1.ObjectMeta")
            raise status.bad_request(
                f'{self.kind} in version "{self.version}" cannot be handled as a {self.kind}: '
                f"{text}"
            ) from None
        applied = ctx.request.content_type.startswith(_APPLY)
        tree = pruned(body, self.schema, "", unknown, root=True)
        if not applied:
            tree = without_nulls(tree, self.schema)
        if self.embedded:
            tree = self._coerced(tree, unknown)
        issues = [*ctx.request.body_issues]
        if applied:  # what the schema lacks was refused, or is pruned in silence
            unknown = []
        issues += [text.replace('"', '"metadata.', 1) for text in strict_issues(META, meta_body)]
        issues += [f"unknown field {quote(path)}" for path in sorted(unknown)]
        level = ctx.request.query.get("fieldValidation") or "Warn"
        if issues and level == "Strict":
            raise status.bad_request(
                f'{self.kind} in version "{self.version}" cannot be handled as a {self.kind}: '
                f"strict decoding error: {', '.join(issues)}"
            )
        if level != "Ignore":
            for issue in issues:
                ctx.warn(issue)
        tree = defaulted(tree, self.schema)
        tree["metadata"] = meta
        if self.webhook is not None:
            return {**tree, "apiVersion": expected}
        if self.converter is not None:
            tree = self.converter(tree, self.storage_version)
        return {**tree, "apiVersion": f"{self.group}/{self.storage_version}"}

    def _coerced(self, tree: Tree, unknown: list[str]) -> Tree:
        """Return a body with the metadata of its embedded resources read. ApiError 400."""
        try:
            made: Tree = coerced(tree, self.schema, self.embedded, unknown)
        except InvalidEmbeddedError as problem:
            raise status.bad_request(
                f'{self.kind} in version "{self.version}" cannot be handled as a {self.kind}: '
                f"{problem.error}"
            ) from None
        return made

    def shown(self, obj: Object) -> Object:
        """A stored object as this version reads it: the same one where that makes no difference."""
        as_stored = self.first and self.stored_schema is None and self.default_status is None
        if as_stored or obj in self._as_is:
            return obj
        known = self._shown.get(obj)
        if known is None:
            tree = self.external(obj.tree)
            if tree == obj.tree:
                self._as_is.add(obj)
                return obj
            known = self._shown[obj] = Object(tree)
        return known

    def external(self, tree: Tree) -> Tree:
        """A stored object in this version.

        It is decoded by the schema of the version that it was stored in, defaults included, converted, and then
        pruned by the schema of this version, which adds no defaults.
        """
        decoded = self.decoded(tree)
        if version_of(decoded) == self.version:
            return decoded
        if self.converter is not None:
            decoded = self.converter(decoded, self.version)
        return self.without_unknown({**decoded, "apiVersion": f"{self.group}/{self.version}"})

    def decoded(self, tree: Tree) -> Tree:
        """A stored object as it is read, in the version that it was stored in: pruned and defaulted."""
        schema = self.schemas.get(version_of(tree), self.schema)
        found: Tree = defaulted(pruned(tree, schema, "", [], root=True), schema)
        return found

    def without_unknown(self, tree: Tree) -> Tree:
        """A converted object, less what the schema of its version does not know."""
        schema = self.schemas.get(version_of(tree), self.schema)
        found: Tree = pruned(tree, schema, "", [], root=True)
        return found

    def problems(
        self, ctx: Context, tree: Tree, old: Tree | None, sub: str = ""
    ) -> list[FieldError]:
        """Return the errors of an object.

        Args:
            ctx: the request.
            tree: the object.
            old: on an update, the object that it replaces.
            sub: "status" for a write of the status alone, whose part of the schema is asked then.
        """
        if tree.get("kind") != self.kind:
            name = tree["metadata"].get("name", "")
            kind = str(tree.get("kind", ""))
            raise status.invalid_kind(
                self.group, kind, name, [invalid("kind", kind, f"must be {self.kind}")]
            )
        errors = self._schema_errors(tree, old, sub)
        if sub != "status":
            errors += self._scale_errors(tree, "specReplicasPath")
        errors += self._scale_errors(tree, "statusReplicasPath")
        errors += self._selector_errors(tree)
        if sub != "status" and self.embedded:
            errors += validate_embedded(tree, self.schema, self.embedded)
        if old is None or not check_lists(old, self.schema):
            errors += check_lists(tree, self.schema)
        if self.ruled:
            if not tree["metadata"].get("name") or any(
                error.reason in _BLOCKING for error in errors
            ):
                errors.append(invalid("<nil>", None, _UNCHECKED))
            else:
                whole = tree if old is None else {**tree}
                before = UNSET if old is None else old
                errors += apply_rules(whole, self.schema, "", before, places=self.ruled)
        return errors

    def _schema_errors(self, tree: Tree, old: Tree | None, sub: str) -> list[FieldError]:
        if sub != "status":
            correlated = None if old is None else Correlated(tree, old, self.schema)
            return validate(tree, self.schema, correlated=correlated)
        schema = (self.schema.get("properties") or {}).get("status")
        if schema is None or old is None or "status" not in tree:
            return []
        correlated = Correlated(tree["status"], old.get("status"), schema)
        return validate(tree["status"], schema, within="status", correlated=correlated)

    def _scale_errors(self, tree: Tree, key: str) -> list[FieldError]:
        """Return the error of the replicas at one of the paths of the scale subresource."""
        if self.scale is None:
            return []
        path = self.scale[key]
        value, problem = _nested(tree, steps(path))
        if problem:
            return [invalid(path, 0, f"{path} accessor error: {problem}")]
        if value is None:
            return []
        if not isinstance(value, int) or isinstance(value, bool):
            kind = {float: "float64", WrittenFloat: "float64", str: "string", bool: "bool"}.get(
                type(value), "map[string]interface {}"
            )
            shown = str(value).lower() if isinstance(value, bool) else value
            text = f"{path} accessor error: {shown} is of the type {kind}, expected int64"
            return [invalid(path, 0, text)]
        if value < 0:
            return [invalid(path, value, "should be a non-negative integer")]
        if value > _MOST_REPLICAS:
            return [invalid(path, value, f"should be less than or equal to {_MOST_REPLICAS}")]
        return []

    def _selector_errors(self, tree: Tree) -> list[FieldError]:
        """Return the error of the label selector of the scale subresource."""
        path = None if self.scale is None else self.scale.get("labelSelectorPath")
        if path is None:
            return []
        value, problem = _nested(tree, steps(path))
        if not problem and (value is None or isinstance(value, str)):
            return []
        if not problem:
            problem = f"{go_value(value)} is of the type {go_type(value)}, expected string"
        return [invalid(path, "", f"{path} accessor error: {problem}")]

    def scale_of(self, tree: Tree, *, lenient: bool = False) -> Tree:
        """The Scale of an object; `lenient`: for a write, where the field may be missing."""
        assert self.scale is not None
        meta = tree["metadata"]
        kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        replicas, _ = _nested(tree, steps(self.scale["specReplicasPath"]))
        if replicas is None and not lenient:
            raise status.internal_error(
                f'the spec replicas field "{self.scale["specReplicasPath"]}" does not exist'
            )
        current, _ = _nested(tree, steps(self.scale["statusReplicasPath"]))
        state: Tree = {"replicas": current or 0}
        selector, _ = _nested(tree, steps(self.scale.get("labelSelectorPath", "")))
        if self.scale.get("labelSelectorPath") and isinstance(selector, str) and selector:
            state["selector"] = selector
        return {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {key: meta[key] for key in kept if key in meta},
            "spec": {"replicas": replicas} if replicas else {},
            "status": state,
        }

    def scaled(self, tree: Tree, replicas: int) -> Tree:
        """The object with another number of replicas, even where the schema does not know them."""
        assert self.scale is not None
        return _with_value(tree, steps(self.scale["specReplicasPath"]), replicas)

    def known(self, tree: Tree) -> Tree:
        """A stored object less what the schema does not know."""
        kept: Tree = pruned(tree, self.stored_schema or self.schema, "", [], root=True)
        return kept

    def table(self, now: int) -> tuple[list[Tree], Callable[[Tree], list[Any]]]:
        """The columns of a table of these objects, and a function that returns a row's cells."""
        return [*self.columns.headers], lambda tree: self.columns.cells(tree, now)


def version_of(tree: Tree) -> str:
    """The version that an object is in, without its group."""
    return str(tree.get("apiVersion", "")).rpartition("/")[2]


# -- from a definition ---------------------------------------------------------------------------


def _schema(version: Tree) -> Tree:
    anything: Tree = {PRESERVE: True, "type": "object"}
    found: Tree = version.get("schema", {}).get("openAPIV3Schema", anything)
    return found


def _default_status(schema: Tree) -> Any:
    properties = schema.get("properties") or {}
    inner = properties.get("status") or {}
    return defaulted({}, {"properties": {"status": inner}}).get("status")


def _deprecation(spec: Tree, kind: str, version: Tree) -> str:
    """Return the warning of a deprecated version: its own text, or the version to use.

    The latter is the most preferred version above it that is served and not deprecated.
    """
    if not version.get("deprecated"):
        return ""
    own = version.get("deprecationWarning")
    if own is not None:
        return str(own)
    group, name = spec["group"], version["name"]
    text = f"{group}/{name} {kind} is deprecated"
    best = name
    for other in spec["versions"]:
        if not other["served"] or other.get("deprecated"):
            continue
        if version_preference(other["name"]) > version_preference(best):
            best = other["name"]
    return text if best == name else f"{text}; use {group}/{best} {kind}"


_KNOWN: IdentityCache[ResourceInfo] = IdentityCache("custom resources")


def resource_of(crd: Tree, version: Tree) -> ResourceInfo:
    """The resource that one version of an accepted definition serves.

    Servers that find the same definition, as all worlds do that begin with forks of one store, share it: what
    it keeps of objects is a function of their content.
    """
    name = version["name"]
    known = _KNOWN.get(crd, name)
    return _KNOWN.put(crd, _resource_of(crd, version), name) if known is None else known


def _resource_of(crd: Tree, version: Tree) -> ResourceInfo:
    spec = crd["spec"]
    names = crd["status"]["acceptedNames"]
    group, plural = spec["group"], names["plural"]
    namespaced = spec["scope"] == "Namespaced"
    kind, name = names["kind"], version["name"]
    subresources = version.get("subresources", {})
    schema = _schema(version)
    stored = next(v for v in spec["versions"] if v["storage"])
    storage = stored["name"]
    digest = hashlib.sha256(f"{group}/{storage}/{kind}".encode()).digest()[:8]
    entry: Tree = {
        "name": plural,
        "singularName": names.get("singular", ""),
        "namespaced": namespaced,
        "kind": kind,
        "verbs": list(VERBS),
    }
    if names.get("shortNames"):
        entry["shortNames"] = names["shortNames"]
    if names.get("categories"):
        entry["categories"] = names["categories"]
    entry["storageVersionHash"] = base64.b64encode(digest).decode()
    found: dict[str, SubresourceInfo] = {}
    verbs = ("get", "patch", "update")
    for sub in ("status", "scale"):
        if subresources.get(sub) is None:
            continue
        where = (group, name, kind) if sub == "status" else ("autoscaling", "v1", "Scale")
        listed: Tree = {"name": f"{plural}/{sub}", "singularName": "", "namespaced": namespaced}
        if sub == "scale":
            listed.update(group="autoscaling", version="v1")
        listed.update(kind=where[2], verbs=list(verbs))
        found[sub] = SubresourceInfo(sub, where[0], where[1], where[2], verbs, listed)
    struct = _struct_of(kind, schema)
    custom = CustomResource(
        group=group,
        version=name,
        kind=kind,
        list_kind=names["listKind"],
        storage_version=storage,
        schema=schema,
        scale=subresources.get("scale"),
        columns=Columns.of(version.get("additionalPrinterColumns") or ()),
        selectable_fields={
            item["jsonPath"].removeprefix("."): parse(
                "{" + item["jsonPath"] + "}", allow_missing_keys=True
            )
            for item in version.get("selectableFields", ())
        },
        strategy=CustomStrategy(
            has_status=subresources.get("status") is not None,
            unconditional_update=False,
            generation=True,
            standard_finalizers=False,
        ),
        has_status=subresources.get("status") is not None,
        deprecation=_deprecation(spec, kind, version),
        struct=StructType(kind, {**struct.fields, **_META_FIELDS}, open=struct.open),
        ruled=ruled_places(schema),
        embedded=embedded_places(schema),
        default_status=_default_status(schema) if "status" in subresources else None,
        stored_schema=None if storage == name or webhook_of(crd) is not None else _schema(stored),
        converter=None if storage == name else converter_of(crd),
        webhook=webhook_of(crd),
        schemas={each["name"]: _schema(each) for each in spec["versions"]},
        first=crd["metadata"].get("generation", 1) == 1,
    )
    return ResourceInfo(
        group=group,
        version=name,
        resource=plural,
        kind=kind,
        namespaced=namespaced,
        verbs=VERBS,
        storage_prefix=f"/registry/{group}/{plural}/",
        hub=(group, storage),
        type_name="",
        singular=names.get("singular", ""),
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        subresources=found,
        entry=entry,
        custom=custom,
    )
