"""One object through decoding, defaulting and the strategy of its kind, as the `api_*` files record it."""

from __future__ import annotations

import copy
import re
from typing import Any

from controlplane.api.object import Object
from controlplane.api.request import Request
from controlplane.api.times import format_time
from controlplane.apiserver.kinds.metadata import change_errors, finalizer_errors, validate_meta
from controlplane.apiserver.kinds.registry import strategy_for
from controlplane.apiserver.kinds.resource.versions import from_beta1, to_beta1
from controlplane.apiserver.kinds.strategy import Context, Strategy
from controlplane.apiserver.schema.codec import DecodeError, decode
from controlplane.apiserver.schema.raw_extension import RawExtension
from controlplane.apiserver.schema.resources import ResourceInfo
from controlplane.apiserver.schema.types import Field, Kind

Json = Any

NOW = 1_795_348_800 * 10**9
PLURALS = {
    "ResourceClaim": "resourceclaims",
    "ResourceClaimTemplate": "resourceclaimtemplates",
    "ResourceSlice": "resourceslices",
    "DeviceClass": "deviceclasses",
    "DeviceTaintRule": "devicetaintrules",
    "PodGroup": "podgroups",
    "Workload": "workloads",
}


class _Namespaces:
    """The lookup of a server that has nothing but namespaces."""

    def __init__(self, case_in: Json) -> None:
        admin = case_in.get("adminNamespaces") or ()
        label = {"resource.kubernetes.io/admin-access": "true"}
        self._labels = {name: {} for name in case_in.get("namespaces") or ()}
        self._labels |= dict.fromkeys(admin, label)

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        labels = self._labels.get(name)
        if labels is None:
            return None
        return Object({"metadata": {"name": name, "labels": labels}})


class Case:
    """The object of one case, in the version of the request and in the stored one."""

    def __init__(self, case_in: Json) -> None:
        given = case_in["object"]
        self.api_version, self.kind = given["apiVersion"], given["kind"]
        group, version = self.api_version.split("/")
        self.group, self.version = group, version
        self.hub = {"resource.k8s.io": "v1", "scheduling.k8s.io": "v1alpha2"}[group]
        if self.kind == "DeviceTaintRule":
            self.hub = version
        self.strategy = strategy_for(group, PLURALS[self.kind])
        self.given = given
        namespace = (given.get("metadata") or {}).get("namespace", "")
        self.context = Context(
            info=self._info(),
            request=Request("create", group, version, PLURALS[self.kind], namespace),
            now=NOW,
            rules=lambda: self.strategy,
            lookup=_Namespaces(case_in),  # type: ignore[arg-type]
            suffix=str,
            cursors={},
            document=copy.deepcopy(given),
            gates=frozenset(name for name, on in (case_in.get("gates") or {}).items() if on),
        )

    def _info(self) -> ResourceInfo:
        return ResourceInfo(
            group=self.group,
            version=self.version,
            resource=PLURALS[self.kind],
            kind=self.kind,
            namespaced=self.kind
            in ("ResourceClaim", "ResourceClaimTemplate", "PodGroup", "Workload"),
            verbs=(),
            storage_prefix="/",
            hub=(self.group, self.hub),
            type_name="",
        )

    def type_in(self, version: str) -> str:
        return f"io.k8s.api.{self.group.partition('.')[0]}.{version}.{self.kind}"

    def stored(self, given: Json) -> Json:
        """A given object as decoded, defaulted and converted to the stored version."""
        tree = decode(self.type_in(self.version), given)
        return self.defaulted(self.converted(tree))

    def converted(self, tree: Json) -> Json:
        if self.version == "v1beta1":
            tree = from_beta1(self.kind, tree)
        if self.version == self.hub:
            return tree
        tree = {**tree, "apiVersion": f"{self.group}/{self.hub}"}
        return decode(self.type_in(self.hub), tree)

    def defaulted(self, tree: Json) -> Json:
        tree = self.strategy.defaults(tree, None)
        return self.strategy.timed(self.context, tree) if hasattr(self.strategy, "timed") else tree

    def shown(self, tree: Json) -> Json:
        """A stored object in the version of the request."""
        if self.version == "v1beta1":
            tree = to_beta1(self.kind, tree)
        return pruned({**tree, "apiVersion": self.api_version})


def pruned(value: Json, *, top: bool = True) -> Json:
    """A value as the recordings show it: without nulls, empty status, spec, resources and metadata."""
    if isinstance(value, RawExtension):
        return value
    if isinstance(value, dict):
        found = {key: pruned(item, top=False) for key, item in value.items() if item is not None}
        hidden = ("status", "spec", "resources", "metadata")
        return {
            key: item for key, item in found.items() if not (key in hidden and item in ({}, []))
        }
    if isinstance(value, list):
        return [pruned(item, top=False) for item in value]
    return value


def _without_status(tree: Json) -> Json:
    return {key: value for key, value in tree.items() if key != "status"}


def _lines(errors: Json) -> list[str]:
    return [f"{error.reason}|{error}" for error in errors]


def _filled_by_schema(field: Field, given: Json) -> bool:
    """Return whether decoding fills in a default of the schema that is more than an empty value."""
    if isinstance(given, list | dict) and field.element is not None:
        items = given if isinstance(given, list) else list(given.values())
        return any(_filled_by_schema(field.element, item) for item in items)
    if field.kind != Kind.STRUCT or not isinstance(given, dict):
        return False
    return any(
        bool(part.default) and given.get(key) is None
        if given.get(key) is None
        else _filled_by_schema(part, given[key])
        for key, part in field.struct.fields.items()
    )


def answer(case_in: Json) -> Json:
    """The outcome of one request."""
    case = Case(case_in)
    try:
        decoded = case.converted(decode(case.type_in(case.version), case_in["object"]))
    except DecodeError as error:
        return {"decodeError": str(error)}
    tree = case.defaulted(decoded)
    made: Json = {}
    before, after = (case.shown(_without_status(each)) for each in (decoded, tree))
    spec = Field("", Kind.STRUCT, case.type_in(case.version))
    if before != after or _filled_by_schema(spec, _without_status(case.given)):
        made["defaulted"] = after
    old = case.stored(case_in["old"]) if "old" in case_in else None
    outcome, errors = _applied(case, case_in["op"], tree, old)
    warnings = case.strategy.warnings(case.context, outcome, old)
    if warnings:
        made["warnings"] = warnings
    if errors:
        return {**made, "errors": _lines(errors)}
    stored = pruned(case.strategy.finish(outcome))
    made["object"] = case.shown(outcome)
    if "beta" in case.version and case.version != case.hub:
        made["v1"] = stored
    return made


def _applied(case: Case, op: str, tree: Json, old: Json) -> tuple[Json, Json]:
    strategy, context = case.strategy, case.context
    namespaced = context.info.namespaced
    if op == "create":
        tree = strategy.prepare_create(context, tree)
        meta = validate_meta(tree["metadata"] or {}, strategy.name_rule, namespaced=namespaced)
        return tree, strategy.permits(context, tree) + meta + strategy.validate(context, tree)
    if op == "update":
        tree = strategy.prepare_update(context, tree, old)
        errors = _meta_errors(strategy, tree, old, strategy.meta_steps, namespaced=namespaced)
        return tree, errors + strategy.validate_update(context, tree, old)
    tree = strategy.prepare_status_update(context, tree, old)
    errors = _meta_errors(strategy, tree, old, "U", namespaced=namespaced)
    return tree, errors + strategy.validate_status_update(context, tree, old)


def _meta_errors(
    strategy: Strategy, new: Json, old: Json, steps: str, *, namespaced: bool
) -> list[Any]:
    errors: list[Any] = []
    for step in steps:
        if step == "A":
            meta, rule = new["metadata"] or {}, strategy.name_rule
            errors += validate_meta(meta, rule, namespaced=namespaced) + finalizer_errors(meta)
        else:
            errors += change_errors(new["metadata"] or {}, old["metadata"] or {})
    return errors


def compare(want: Json, got: Json) -> str | None:
    """Differences, but for times of the run, and the order of errors where upstream's varies."""
    if want.get("anyOrder"):
        want = {key: value for key, value in want.items() if key != "anyOrder"}
        got = {**got, "errors": sorted(got.get("errors") or ())}
        want = {**want, "errors": sorted(want.get("errors") or ())}
    for key in sorted(want.keys() | got.keys()):
        if not _same(want.get(key), got.get(key)):
            return f"{key}: {_difference(want.get(key), got.get(key))}"
    return None


_TIME = re.compile(r"202\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_RUN = format_time(NOW)


def _bare(tree: Json) -> Json:
    """Return an object without lists that have no items, and without parts that have nothing else."""
    return {
        key: value for key, value in tree.items() if value not in ([], {"podGroupTemplates": []})
    }


def _difference(want: Json, got: Json, path: str = "") -> str:
    """Return the first place where two values differ, and what stands there."""
    if isinstance(want, dict) and isinstance(got, dict):
        for key in sorted(want.keys() | got.keys()):
            if not _same({key: want.get(key)}, {key: got.get(key)}):
                return _difference(want.get(key), got.get(key), f"{path}.{key}")
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        for index, (a, b) in enumerate(zip(want, got, strict=True)):
            if not _same(a, b):
                return _difference(a, b, f"{path}[{index}]")
    return f"{path}: want {want!r}, got {got!r}"


def _same(want: Json, got: Json) -> bool:
    """Return whether two values agree: a time of our run agrees with any time, a list without items with none."""
    if isinstance(want, dict) and isinstance(got, dict):
        want, got = _bare(want), _bare(got)
        return want.keys() == got.keys() and all(_same(want[key], got[key]) for key in want)
    if isinstance(want, list) and isinstance(got, list):
        return len(want) == len(got) and all(map(_same, want, got))
    if got == _RUN and isinstance(want, str):
        return want == "<now>" or bool(_TIME.fullmatch(want))
    return bool(want == got)
