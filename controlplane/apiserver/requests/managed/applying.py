"""Server-side apply, and the bookkeeping of ordinary writes."""

from __future__ import annotations

import json
from typing import Protocol

from attrs import frozen

from controlplane.api import go_values
from controlplane.api.flags import flag
from controlplane.api.object import Object
from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.requests.admission.chain import Admission
from controlplane.apiserver.requests.bodies import Bodies, identified
from controlplane.apiserver.requests.managed.checking import check_types
from controlplane.apiserver.requests.managed.fieldsets import (
    Path,
    compare,
    in_set_order,
    paths_of,
    shown,
    stripped,
)
from controlplane.apiserver.requests.managed.merging import merged, with_named, without
from controlplane.apiserver.requests.managed.ordinary import empty, reset, type_of
from controlplane.apiserver.requests.managed.scaling import (
    REPLICAS,
    SCALE,
    VERSION,
    of_object,
    of_scale,
)
from controlplane.apiserver.requests.managed.tracking import (
    Entry,
    Identity,
    encoded,
    managers_of,
    reset_paths,
    without_paths,
)
from controlplane.apiserver.requests.patching.restoring import UnfitError, restored
from controlplane.apiserver.requests.registries import Registries
from controlplane.apiserver.schema import go_json, status
from controlplane.apiserver.schema.empty_bytes import spelled
from controlplane.apiserver.schema.json_values import json_type
from controlplane.apiserver.schema.raw_extension import compact
from controlplane.apiserver.schema.resources import ResourceInfo
from controlplane.apiserver.schema.types import StructType, struct_type
from controlplane.apiserver.storage.transactions import Live, Steps

__all__ = ["Apply", "applied_scale"]

_BEFORE = "before-first-apply"


class Typed(Protocol):
    """The identity of the kind that a configuration is checked against."""

    @property
    def group(self) -> str:
        """The API group."""

    @property
    def version(self) -> str:
        """The version within the group."""

    @property
    def api_version(self) -> str:
        """Group and version as in objects."""

    @property
    def kind(self) -> str:
        """The kind."""


@frozen
class _ScaleInfo:
    group: str = "autoscaling"
    version: str = "v1"
    api_version: str = VERSION
    kind: str = "Scale"


def _configuration(ctx: Context) -> tuple[Tree, str]:
    """The applied configuration from the request's body, and what it says twice."""
    request, repeated = ctx.request, ""
    if not request.path:
        body = request.body
    else:
        try:
            body = go_json.parse_yaml(request.raw)
        except go_json.YamlDuplicates as error:
            repeated = str(error)
            body = error.value
        except go_json.TextError as error:
            raise status.bad_request(
                f"error decoding YAML: error converting YAML to JSON: {error}"
            ) from None
    if body is None:
        body = {}
    if not isinstance(body, dict):
        raise status.bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot "
            f"unmarshal {json_type(body)} into Go value of type map[string]interface {{}}"
        )
    return body, repeated


def _check_repeated(ctx: Context, repeated: str) -> None:
    """Warn of repeated keys, or refuse them, once the configuration has been applied. ApiError 400.

    Upstream: apiserver handlers/patch.go, applyPatchToCurrentObject.
    """
    level = ctx.request.query.get("fieldValidation") or "Warn"
    if not repeated or level == "Ignore":
        return
    if level == "Strict":
        raise status.bad_request(
            f"error strict decoding YAML: error converting YAML to JSON: {repeated}"
        )
    for line in repeated.split("\n")[1:]:
        ctx.warn(line.strip())


def _checked(config: Tree, info: Typed, struct: StructType) -> Tree:
    """A configuration whose kind and types fit. ApiError.

    Upstream: managedfields/internal (versioncheck.go, structuredmerge.go), which read it as unstructured: what is of
    another type counts as missing there.
    """
    named = config.get("metadata")
    meta: Tree = named if isinstance(named, dict) else {}
    version, kind = _text(config, "apiVersion"), _text(config, "kind")
    if version != info.api_version or kind != info.kind:
        group, _, short = version.rpartition("/")
        if "/" in group:
            group = short = kind = ""
        raise status.bad_request(f"invalid object type: {group}/{short}, Kind={kind}")
    owners = meta.get("managedFields")
    if isinstance(owners, list) and all(isinstance(each, dict) for each in owners):
        raise status.bad_request("metadata.managedFields must be nil")
    problems = check_types(config, struct)
    if problems:
        name, namespace = _text(meta, "name"), _text(meta, "namespace")
        text = (
            problems[0]
            if len(problems) == 1
            else "errors:\n" + "\n".join(f"  {problem}" for problem in problems)
        )
        gvk = f"{info.group}/{info.version}" if info.group else f"/{info.version}"
        raise status.plain_error(
            f"failed to create typed patch object ({namespace}/{name}; {gvk}, Kind={info.kind}): "
            f"{text}"
        )
    return config


def _text(tree: Tree, key: str) -> str:
    """Return a value that is a text, "" for any other."""
    value = tree.get(key)
    return value if isinstance(value, str) else ""


def applied_scale(ctx: Context, current: Tree, scale: Tree, path: Path) -> tuple[Tree, Tree]:
    """Apply the request's Scale to an object: the new Scale, and the object with its owners noted.

    `scale` is the object's Scale as it is, `path` the place of the replicas in the object. ApiError.
    """
    struct, identity = struct_type(SCALE), Identity(ctx.request.manager, "Apply", "", "scale")
    config, repeated = _configuration(ctx)
    config = _checked(config, _ScaleInfo(), struct)
    owned = managers_of(current["metadata"].get("managedFields"))
    rivals = of_scale(owned, path)
    if not rivals:
        rivals = {
            Identity(_BEFORE, "Update", VERSION, "scale"): Entry(
                stripped(paths_of(scale, struct)), "", VERSION
            )
        }
    given = paths_of(config, struct)
    result = merged(scale, config, struct)
    if identity in rivals:
        others = (entry.paths for each, entry in rivals.items() if each != identity)
        result = without(result, struct, REPLICAS, given.union(*others))
    difference = compare(scale, result, struct)
    lost = difference.taken() | frozenset(difference.removed)
    conflicts = conflicts_with(rivals, identity, lost)
    if conflicts and not flag(ctx.request.query.get("force")):
        raise conflict_error(conflicts)
    try:
        result = restored(result, SCALE, scale)
    except UnfitError as error:
        raise _unconvertible(_ScaleInfo(), config, error) from None
    _check_repeated(ctx, repeated)
    rivals = without_paths(rivals, lost, identity)
    rivals[identity] = Entry(stripped(given), format_time(ctx.now), VERSION)
    managers = of_object(owned, rivals, path, ctx.info.api_version)
    meta = {key: value for key, value in current["metadata"].items() if key != "managedFields"}
    fields = encoded(managers) if ctx.track_fields else None
    return result, {
        **current,
        "metadata": {**meta, **({"managedFields": fields} if fields else {})},
    }


class Apply:
    """Server-side apply over the parts of a server that it needs."""

    def __init__(self, registries: Registries, bodies: Bodies, admission: Admission) -> None:
        self._registries = registries
        self._bodies = bodies
        self._admission = admission

    def apply(self, ctx: Context, sub: str = "") -> Steps[tuple[Object, bool]]:
        """Apply the request's configuration; answers the object and whether it is new."""
        request, info = ctx.request, ctx.info
        registry = self._registries.of(info)
        found: Live | None = yield registry.reading(request.namespace, request.name)
        if found is None and not registry.strategy.creates_on_update(sub):
            raise status.not_found(info, request.name)
        config, repeated = _configuration(ctx)
        config = _checked(config, info, type_of(ctx))

        def transform(current: Tree) -> Tree:
            live = compact(info.kind, self._bodies.external(info, Object(current)).tree)
            applied = self._applied(ctx, live, config, sub)
            _check_repeated(ctx, repeated)
            applied = identified(ctx, applied)
            return self._admission.mutate(ctx, _as_it_came(info, applied, current), current)

        if found is None:
            try:
                return (yield from self._create(ctx, config, repeated, sub)), True
            except status.ApiError as error:
                found = yield registry.reading(request.namespace, request.name)
                if error.reason != "AlreadyExists" or found is None:
                    raise
        obj, _ = yield from registry.update(
            ctx, request.namespace, request.name, transform, sub=sub, found=found
        )
        return self._bodies.external(info, obj), False

    def _create(self, ctx: Context, config: Tree, repeated: str, sub: str) -> Steps[Object]:
        info = ctx.info
        paths = reset_paths(stripped(paths_of(config, type_of(ctx))), reset(ctx, sub))
        identity = Identity(ctx.request.manager, "Apply", "", sub)
        fields = encoded({identity: Entry(paths, format_time(ctx.now), info.api_version)})
        meta = {**(config.get("metadata") or {}), "managedFields": fields}
        body = {**config, "metadata": meta}
        wanted = self._bodies.missing(ctx)
        if wanted is not None:
            yield from self._bodies.fetch(ctx, wanted)
        if info.custom is None:
            body = self._restored(ctx, body, {}, config)
        _check_repeated(ctx, repeated)
        uid = meta.get("uid")
        if uid:
            raise status.conflict(
                info,
                ctx.request.name,
                f"uid mismatch: the provided object specified uid {uid}, and no existing object "
                "was found",
            )
        tree = self._bodies.new_object(ctx, identified(ctx, body), tracked=True)
        obj = yield from self._registries.of(info).create(ctx, tree, ctx.request.name)
        return self._bodies.external(info, obj)

    def _read(self, ctx: Context, result: Tree, live: Tree, config: Tree) -> Tree:
        """A merged object as one of its type."""
        if ctx.info.custom is None:
            result = self._restored(ctx, result, live, config)
        return self._bodies.read(ctx, result, None)

    def _restored(self, ctx: Context, tree: Tree, live: Tree, config: Tree) -> Tree:
        try:
            converted: Tree = restored(tree, ctx.info.type_name, live)
        except UnfitError as error:
            raise _unconvertible(ctx.info, config, error) from None
        return converted

    def _applied(self, ctx: Context, live: Tree, config: Tree, sub: str) -> Tree:
        """The live object after applying, with conflicts checked and owners noted."""
        struct, info = type_of(ctx), ctx.info
        now, unset = format_time(ctx.now), reset(ctx, sub)
        meta = live["metadata"]
        managers = managers_of(meta.get("managedFields"))
        if not managers:
            everything = stripped(compare(empty(ctx), live, struct).taken())
            before = Identity(_BEFORE, "Update", info.api_version, sub)
            managers[before] = Entry(reset_paths(everything, unset), now, info.api_version)
        identity = Identity(ctx.request.manager, "Apply", "", sub)
        last = managers.get(identity)
        given = paths_of(config, struct)
        paths = reset_paths(stripped(given), unset)
        base = {**live, "metadata": {k: v for k, v in meta.items() if k != "managedFields"}}
        result = merged(base, config, struct)
        if last is not None:
            kept = given.union(*(e.paths for key, e in managers.items() if key != identity))
            result = without(result, struct, with_named(last.paths, struct), kept)
        difference = compare(base, result, struct)
        changed = difference.taken() | (frozenset(difference.removed) & paths)
        rivals = managers
        if info.custom is not None and info.custom.webhook is not None:
            # Those in other versions are asked in their versions, see `conversions`.
            rivals = {key: e for key, e in managers.items() if e.version == info.api_version}
        conflicts = conflicts_with(rivals, identity, reset_paths(changed, unset))
        if conflicts and not flag(ctx.request.query.get("force")):
            conflicts = _not_its_own(conflicts, _applied_by_client(ctx, base, struct))
            if conflicts:
                raise conflict_error(conflicts)
        external = self._read(ctx, result, live, config)
        lost = reset_paths(changed | frozenset(difference.removed), unset)
        managers = without_paths(managers, lost, identity)
        if not changed and not difference.removed:
            entry = Entry(paths, last.time if last is not None else "", info.api_version)
        else:
            entry = Entry(paths, now, info.api_version)
        if paths:
            managers[identity] = entry
        else:
            managers.pop(identity, None)
        fields = encoded(managers)
        new_meta = {k: v for k, v in external["metadata"].items() if k != "managedFields"}
        if fields:
            new_meta["managedFields"] = fields
        return {**external, "metadata": _with_last_applied(ctx, new_meta, config)}


_AS_THEY_CAME = (
    "apiservices",
    "certificatesigningrequests",
    "controllerrevisions",
    "deviceclasses",
    "mutatingwebhookconfigurations",
    "resourceclaims",
    "resourceclaimtemplates",
    "validatingwebhookconfigurations",
)
"""The resources that hold objects as the texts that they came as, see `schema.raw_extension`."""


def _as_it_came(info: ResourceInfo, made: Tree, current: Tree) -> Tree:
    """Return the stored object with the new managed fields where applying changed no value of it.

    Upstream's merge answers no object then, so texts within the stored one stay as they are.
    """
    if info.custom is not None or info.resource not in _AS_THEY_CAME:
        return made
    one, other = (
        json.dumps(spelled(info.kind, _unmanaged(each)), sort_keys=True) for each in (made, current)
    )
    return {**current, "metadata": made["metadata"]} if one == other else made


def _unmanaged(tree: Tree) -> Tree:
    meta = {key: value for key, value in tree["metadata"].items() if key != "managedFields"}
    return {**tree, "metadata": meta}


def _unconvertible(info: Typed, config: Tree, why: UnfitError) -> status.ApiError:
    """Return upstream's error for a merged object with a text that its type cannot hold.

    Upstream: managedfields/internal/structuredmerge.go, which converts after merging.
    """
    kind = f"{info.group}/{info.version}, Kind={info.kind}"
    meta = config.get("metadata") or {}
    place = f"{meta.get('namespace', '')}/{meta.get('name', '')}"
    return status.plain_error(
        f"failed to convert new object ({place}; {kind}) to proper version: unable to "
        f"convert unstructured object to {kind}: {why}"
    )


_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATIONS = 256 * 1024


def _with_last_applied(ctx: Context, meta: Tree, config: Tree) -> Tree:
    """Kubectl's note of what it applied follows its server-side apply, where an object has one.

    Upstream: managedfields/internal/lastappliedupdater.go. It goes when all annotations grow too long.
    """
    had = meta.get("annotations") or {}
    if ctx.request.manager != "kubectl" or _LAST_APPLIED not in had:
        return meta
    given = dict(config.get("metadata") or {})
    notes = {
        key: value
        for key, value in (given.pop("annotations", None) or {}).items()
        if key != _LAST_APPLIED
    }
    if notes:
        given["annotations"] = notes
    shown = {**config, "metadata": given}
    text = go_values.go_json(shown) + "\n"
    annotations = {**had, _LAST_APPLIED: text}
    if sum(len(key) + len(value) for key, value in annotations.items()) > _MAX_ANNOTATIONS:
        del annotations[_LAST_APPLIED]
    return {**meta, "annotations": annotations}


def conflicts_with(
    managers: dict[Identity, Entry], identity: Identity | None, changed: frozenset[Path]
) -> list[tuple[Identity, Entry, list[Path]]]:
    """The managers other than `identity` that own changed paths, with these paths; sorted by name."""
    found = []
    for other, entry in managers.items():
        if other == identity:
            continue
        both = in_set_order(entry.paths & changed)
        if both:
            found.append((other, entry, both))
    found.sort(key=lambda item: (item[0].manager, item[0].operation, item[0].subresource))
    return found


def _applied_by_client(ctx: Context, live: Tree, struct: StructType) -> frozenset[Path]:
    """Return the fields that kubectl's last-applied annotation claims, as far as their values are unchanged.

    Its own server-side apply may take that over. Upstream: managedfields/internal/lastappliedmanager.go.
    """
    text = (live["metadata"].get("annotations") or {}).get(_LAST_APPLIED)
    if ctx.request.manager != "kubectl" or not text:
        return frozenset()
    try:
        noted = json.loads(text)
    except ValueError:
        return frozenset()
    if not isinstance(noted, dict) or noted.get("apiVersion") != ctx.info.api_version:
        return frozenset()
    if check_types(noted, struct):
        return frozenset()
    changed = compare(live, noted, struct)
    return frozenset(paths_of(noted, struct)) - changed.taken()


def _not_its_own(
    conflicts: list[tuple[Identity, Entry, list[Path]]], own: frozenset[Path]
) -> list[tuple[Identity, Entry, list[Path]]]:
    left = [
        (identity, entry, [path for path in paths if path not in own])
        for identity, entry, paths in conflicts
    ]
    return [each for each in left if each[2]]


def conflict_error(
    conflicts: list[tuple[Identity, Entry, list[Path]]],
) -> status.ApiError:
    """409 for an apply that would change what others own."""
    causes: list[Tree] = []
    texts: list[str] = []
    total = sum(len(paths) for _, _, paths in conflicts)
    for other, entry, paths in conflicts:
        who = f'"{other.manager}"'
        if other.subresource:
            who += f' with subresource "{other.subresource}"'
        if other.operation == "Update":
            who += f" using {entry.version}"
        lines = [shown(path) for path in paths]
        for line in lines:
            causes.append(
                {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": line}
            )
        if total == 1:
            texts.append(f"conflict with {who}: {lines[0]}")
        else:
            listed = "\n".join(f"- {line}" for line in lines)
            texts.append(f"conflicts with {who}:\n{listed}")
    noun = "conflict" if total == 1 else "conflicts"
    message = f"Apply failed with {total} {noun}: " + "\n".join(texts)
    return status.ApiError(409, "Conflict", message, {"causes": causes})
