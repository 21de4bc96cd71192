"""Conversion webhooks: objects of custom resources from one version to another, by calls of the definition's webhook.

Handling works in the version of the request. Between it and the store stands `Conversions.over`: what is read is
converted to the version of the request, what is written to the storage version, one object a call. The calls are
operations (`Review`) that handling yields, as calls of admission webhooks are. Lists and watches, which come from
the watch cache, have each stored object converted once for each version.
Upstream: apiextensions-apiserver pkg/apiserver/conversion/{converter,webhook_converter}.go and
customresource_handler.go; apiserver pkg/storage/etcd3 (decoding), pkg/storage/cacher.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from attrs import evolve, field, frozen

from controlplane.api.flags import flag
from controlplane.api.object import Object
from controlplane.api.times import SECOND
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.metadata import validate_annotations, validate_labels
from controlplane.apiserver.kinds.strategy import Context, Lookup
from controlplane.apiserver.requests.admission.webhooks import place_of
from controlplane.apiserver.requests.managed.applying import conflict_error, conflicts_with
from controlplane.apiserver.requests.managed.fieldsets import compare
from controlplane.apiserver.requests.managed.tracking import encoded, managers_of
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.field_errors import aggregate
from controlplane.apiserver.schema.resources import ResourceInfo, ResourceTable
from controlplane.apiserver.storage.transactions import (
    Done,
    Found,
    Get,
    Live,
    Operation,
    Put,
    Review,
    Reviewed,
    Steps,
    Transaction,
)
from controlplane.apiserver.storage.watch_cache import BOOKMARK, Watcher, WatchEvent

if TYPE_CHECKING:
    from controlplane.apiserver.kinds.custom.resources import CustomResource

__all__ = ["Conversions", "converted_object"]

T = TypeVar("T")

SECONDS: Final = 30
"""Time limit of a call. Upstream: rest.Config of apiserver pkg/util/webhook/client.go."""
_GROUP: Final = "apiextensions.k8s.io"
_KIND: Final = "ConversionReview"
_APPLY: Final = "application/apply-patch"
_KNOWN: Final = ("v1", "v1beta1")
_SCHEME: Final = "k8s.io/apiserver/pkg/util/webhook/client.go:71"
_HEAD: Final = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
_GO_TYPES: Final = {
    list: "[]interface {}",
    dict: "map[string]interface {}",
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    type(None): "<nil>",
}
_JSON_TYPES: Final = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}


class Conversions:
    """The conversion webhooks of one server.

    Args:
        actor: names the actor that answers for a host, "" if there is none; None: no webhook is ever called.
        lookup: what the server knows of services.
        table: the resources that are served, in all their versions.
        uid: makes the identifier of a call.
    """

    def __init__(
        self,
        actor: Callable[[str], str] | None,
        lookup: Lookup,
        table: ResourceTable,
        uid: Callable[[], str],
    ) -> None:
        self.table = table
        self._actor = actor
        self._lookup = lookup
        self._uid = uid
        self._known: WeakKeyDictionary[Object, dict[CustomResource, Object]] = WeakKeyDictionary()

    def concerns(self, info: ResourceInfo) -> bool:
        """True if objects of the resource may have to be converted by a webhook."""
        return info.custom is not None and info.custom.webhook is not None

    def over(self, ctx: Context, steps: Steps[T]) -> Steps[T]:
        """Handling in the version of the request, over a store that may have other versions."""
        passage = _Passage(self, ctx)
        try:
            operation = next(steps)
            while True:
                try:
                    outcome = yield from passage.perform(operation)
                except status.ApiError as error:
                    operation = steps.throw(error)
                else:
                    operation = steps.send(outcome)
        except StopIteration as end:
            result: T = end.value
            return result

    def shown(self, info: ResourceInfo, obj: Object) -> Steps[Object]:
        """A stored object in the version of `info`; each is converted once. ApiError."""
        custom: CustomResource = info.custom
        found = self._known.get(obj, {}).get(custom)
        if found is None:
            found = yield from self.read(info, obj)
            if found is not obj:
                self._known.setdefault(obj, {})[custom] = found
        return found

    def all_shown(self, info: ResourceInfo, items: Iterable[Object]) -> Steps[list[Object]]:
        """Stored objects in the version of `info`. ApiError."""
        found = []
        for obj in items:
            found.append((yield from self.shown(info, obj)))
        return found

    def read(self, info: ResourceInfo, obj: Object) -> Steps[Object]:
        """A stored object in the version of `info`, the same one where that makes no difference. ApiError."""
        from controlplane.apiserver.kinds.custom.resources import version_of

        custom: CustomResource = info.custom
        tree = custom.decoded(obj.tree)
        if version_of(tree) != custom.version:
            tree = yield from self.convert(custom, tree, custom.version)
        return obj if tree == obj.tree else Object(tree)

    def convert(self, custom: CustomResource, tree: Tree, version: str) -> Steps[Tree]:
        """An object in another version, by a call of the webhook; the same if it has that version. ApiError.

        The resource version of the store is no part of what is converted.
        """
        wanted = f"{custom.group}/{version}"
        if tree["apiVersion"] == wanted:
            return tree
        meta = {key: value for key, value in tree["metadata"].items() if key != "resourceVersion"}
        sent = {**tree, "metadata": meta}
        answer = yield from self._call(custom, sent, wanted)
        made = custom.without_unknown(converted_object(sent, answer, wanted))
        if "resourceVersion" in tree["metadata"]:
            stored = tree["metadata"]["resourceVersion"]
            made = {**made, "metadata": {**made["metadata"], "resourceVersion": stored}}
        return made

    def release(self, watcher: Watcher) -> Steps[None]:
        """Pass on the events that a watch holds back, in its version. ApiError for the first that cannot be."""
        while watcher.held and not watcher.closed:
            event = watcher.held[0]
            if event.type != BOOKMARK:
                obj = yield from self.shown(watcher.info, event.object)
                event = WatchEvent(event.type, obj, event.revision)
            if watcher.held:
                watcher.held.popleft()
                watcher.deliver(event)

    def _call(self, custom: CustomResource, tree: Tree, wanted: str) -> Steps[Any]:
        """The only converted object in the answer of the webhook. ApiError."""
        webhook = custom.webhook or {}
        named = f"conversion webhook for {tree['apiVersion']}, Kind={tree.get('kind', '')}"
        version = next((v for v in webhook["conversionReviewVersions"] if v in _KNOWN), "")
        if not version:
            raise status.plain_error("no supported conversion review versions")
        client = webhook["clientConfig"]
        host, url = place_of(webhook)
        url = f"{url}?timeout={SECONDS}s"
        actor = "" if self._actor is None else self._actor(host)
        if actor:
            uid = self._uid()
            body = {
                "kind": _KIND,
                "apiVersion": f"{_GROUP}/{version}",
                "request": {"uid": uid, "desiredAPIVersion": wanted, "objects": [tree]},
                "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
            }
            bundle = _bundle(client.get("caBundle") or "")
            answered: Reviewed = yield Review(actor, url, body, SECONDS * SECOND, bundle)
            if not answered.error:
                return _only(named, _objects(named, answered.body, uid, version))
            problem = answered.error
            plain = answered.plain
        else:
            problem, plain = self._unreached(client, host), False
        problem = problem if plain else f'Post "{url}": {problem}'
        raise status.plain_error(f"{named} failed: {problem}")

    def _unreached(self, client: Tree, host: str) -> str:
        """Return why a webhook without a server cannot be reached."""
        service = client.get("service")
        if service is None:
            return f"dial tcp {host}: connect: connection refused"
        found = self._lookup.get("", "services", service["namespace"], service["name"])
        if found is None:
            return f'service "{service["name"]}" not found'
        address = (found.tree.get("spec") or {}).get("clusterIP", "")
        return f"dial tcp {address}:{service.get('port', 443)}: connect: connection refused"


@frozen
class _Passage:
    """The reads and writes of one request, between the version of the request and that of the store."""

    conversions: Conversions
    ctx: Context
    _read_from: dict[str, Object] = field(factory=dict, init=False)
    """The stored objects that were read, by key."""

    @property
    def info(self) -> ResourceInfo:
        """The resource in the version of the request."""
        return self.ctx.info

    def perform(self, operation: Operation) -> Steps[Any]:
        """The outcome of an operation, for handling in the version of the request. ApiError."""
        prefix = self.info.storage_prefix
        if type(operation) is Transaction:
            if any(change.prefix == prefix for change in operation.changes):
                return (yield from self._write(operation))
        elif type(operation) is Get and operation.prefix == prefix:
            return (yield from self._read(operation))
        return (yield operation)

    def _read(self, operation: Get) -> Steps[Found | None]:
        from controlplane.apiserver.kinds.custom.resources import version_of

        stored: Live | None = yield operation
        if stored is None:
            return None
        obj = yield from self.conversions.read(self.info, stored.object)
        self._read_from[operation.key] = stored.object
        custom: CustomResource = self.info.custom
        moves = version_of(stored.object.tree) != custom.storage_version
        return Found(obj, stored.rewritten, moves)

    def _write(self, operation: Transaction) -> Steps[Done]:
        custom: CustomResource = self.info.custom
        changes = []
        for change in operation.changes:
            if isinstance(change, Put) and change.prefix == self.info.storage_prefix:
                tree = yield from self._owned(change)
                tree = yield from self.conversions.convert(custom, tree, custom.storage_version)
                change = change._replace(tree=tree, before=None)
            changes.append(change)
        if operation.rehearsed:
            made = [Object(change.tree) for change in changes if isinstance(change, Put)]
            shown = yield from self._shown(made)
            return Done(True, 0, tuple(shown))
        done: Done = yield operation._replace(changes=tuple(changes))
        objects: list[Object | None] = []
        for change, obj in zip(operation.changes, done.objects, strict=False):
            if obj is None:
                objects.append(None)
                continue
            self._read_from[change.key] = obj
            objects.append((yield from self.conversions.read(self.info, obj)))
        return done._replace(objects=tuple(objects))

    def _shown(self, made: list[Object]) -> Steps[list[Object]]:
        found = []
        for obj in made:
            found.append((yield from self.conversions.read(self.info, obj)))
        return found

    def _owned(self, put: Put) -> Steps[Tree]:
        """The object to write, whose managers in other versions no longer own what changes in theirs.

        What changes in the version of the request is taken from them already. An apply without force is refused
        with 409 where they own it. Upstream: structured-merge-diff merge/update.go, which compares in the version of
        each manager.
        """
        new, stored = put.tree, self._read_from.get(put.key)
        managers = managers_of(new["metadata"].get("managedFields"))
        if put.before is None or stored is None:
            return new
        request = self.ctx.request
        yields = request.content_type.startswith(_APPLY) and not flag(request.query.get("force"))
        had = managers_of(put.before.metadata.get("managedFields"))
        versions = dict.fromkeys(
            entry.version for entry in had.values() if entry.version != self.info.api_version
        )
        if not versions:
            return new
        for api_version in versions:
            version = api_version.rpartition("/")[2]
            info = self.conversions.table.get(self.info.group, version, self.info.resource)
            if info is None or info.custom is None:
                continue
            old = (yield from self.conversions.read(info, stored)).tree
            made = yield from self.conversions.convert(self.info.custom, new, version)
            difference = compare(old, made, info.custom.struct)
            if yields:
                rivals = {k: entry for k, entry in had.items() if entry.version == api_version}
                conflicts = conflicts_with(rivals, None, difference.taken())
                if conflicts:
                    raise conflict_error(conflicts)
            lost = difference.taken() | frozenset(difference.removed)
            managers = {
                identity: evolve(entry, paths=entry.paths - lost)
                if entry.version == api_version
                else entry
                for identity, entry in managers.items()
            }
        fields = encoded(managers)
        meta = {key: value for key, value in new["metadata"].items() if key != "managedFields"}
        return {**new, "metadata": {**meta, "managedFields": fields} if fields else meta}


# -- answers -------------------------------------------------------------------------------------


def _bundle(text: str) -> str:
    """Certificates in base64; none where there is only white space."""
    try:
        return text if base64.b64decode(text).strip() else ""
    except ValueError:
        return text


def _json_type(value: Any) -> str:
    return _JSON_TYPES.get(type(value), "object")


def _go_type(value: Any) -> str:
    return next((name for kind, name in _GO_TYPES.items() if isinstance(value, kind)), "<nil>")


def _objects(named: str, body: Any, uid: str, version: str) -> list[Any]:
    """The converted objects of an answer. ApiError."""
    problem = _problem(body, uid, version)
    if problem:
        raise status.plain_error(f"{named} failed: {problem}")
    found: list[Any] = body["response"].get("convertedObjects") or []
    return found


def _problem(body: Any, uid: str, version: str) -> str:
    """Return why an answer is invalid, "" if it is valid. In version v1beta1 neither kind nor uid are checked."""
    if body is None:
        body = {}
    if not isinstance(body, dict):
        kind = _json_type(body)
        return (
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {kind} into Go "
            f"value of type {_HEAD}"
        )
    wanted = f"{_GROUP}/{version}"
    given, kind = body.get("apiVersion") or "", body.get("kind") or ""
    group, _, number = (given or wanted).rpartition("/")
    if group != _GROUP or number not in _KNOWN or (kind or _KIND) != _KIND:
        return (
            f'no kind "{kind or _KIND}" is registered for version "{given or wanted}" in scheme '
            f'"{_SCHEME}"'
        )
    if number != version:
        return f"converting ({number}.{_KIND}) to ({version}.{_KIND}): unknown conversion"
    if version == "v1" and not (given and kind):
        told = given if "/" in given else f"/{given}"
        return f"expected webhook response of {wanted}, Kind={_KIND}, got {told}, Kind={kind}"
    response = body.get("response")
    if not isinstance(response, dict):
        return "no response provided"
    if version == "v1" and response.get("uid", "") != uid:
        return f'expected response.uid="{uid}", got "{response.get("uid", "")}"'
    result = response.get("result") or {}
    if result.get("status") != "Success":
        told = result.get("message") or ""
        return told or f"response.result.status was '{result.get('status') or ''}', not 'Success'"
    return ""


def _only(named: str, objects: list[Any]) -> Any:
    if len(objects) != 1:
        raise status.plain_error(f"{named} returned {len(objects)} objects, expected 1")
    return objects[0]


def converted_object(given: Tree, answer: Any, wanted: str) -> Tree:
    """Return the webhook's object, with the metadata of `given` but for labels and annotations.

    Args:
        given: the object that was sent.
        answer: the converted object of the answer.
        wanted: the requested apiVersion.

    Raises:
        ApiError: 500 without a reason, with upstream's text.
    """
    if answer is None:
        raise status.plain_error("unexpected end of JSON input")
    if not isinstance(answer, dict):
        kind = _json_type(answer)
        text = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        raise status.plain_error(text)
    version = answer.get("apiVersion") or ""
    if not answer.get("kind") or not isinstance(version, str) or version.count("/") > 1:
        raw = json.dumps(answer, separators=(",", ":"), ensure_ascii=False)
        raise status.plain_error(f"Object 'Kind' is missing in '{raw}'")
    named = f"conversion webhook for {given['apiVersion']}, Kind={given['kind']} returned invalid"
    if version != wanted:
        text = f"invalid groupVersion (expected {wanted}, received {version})"
        raise status.plain_error(f"{named} object at index 0: {text}")
    if answer["kind"] != given["kind"]:
        text = f"invalid kind (expected {given['kind']}, received {answer['kind']})"
        raise status.plain_error(f"{named} object at index 0: {text}")
    for key, title in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        had, has = _text_of(given, key), _text_of(answer, key)
        if had != has:
            text = f"must have the same {title}: {had} != {has}"
            raise status.plain_error(f"{named} object: {text}")
    meta = _restored(named, given["metadata"], answer)
    return {**answer, "metadata": meta}


def _text_of(tree: Tree, key: str) -> str:
    meta = tree.get("metadata")
    value = meta.get(key) if isinstance(meta, dict) else None
    return value if isinstance(value, str) else ""


def _restored(named: str, original: Tree, answer: Tree) -> Tree:
    """The metadata that was sent, with the labels and annotations of the answer."""
    if "metadata" not in answer:
        raise status.plain_error(f"{named} metadata: missing metadata in converted object")
    meta = answer["metadata"]
    if not isinstance(meta, dict):
        kind = _go_type(meta)
        text = f"invalid metadata of type {kind} in converted object"
        raise status.plain_error(f"{named} metadata: {text}")
    made = dict(original)
    for key, path, check in (
        ("labels", "metadata.labels", validate_labels),
        ("annotations", "metadata.annotation", validate_annotations),
    ):
        value = meta.get(key)
        if value is None:
            made.pop(key, None)
            continue
        if not isinstance(value, dict):
            text = f"invalid metadata.{key} of type {_go_type(value)} in converted object"
            raise status.plain_error(f"{named} metadata: {text}")
        for name, item in sorted(value.items()):
            if not isinstance(item, str):
                text = f"metadata.{key}[{name}] must be a string, but is {_go_type(item)}"
                raise status.plain_error(f"{named} metadata: {text} in converted object")
        errors = check(value, path) if value != original.get(key) else []
        if errors:
            raise status.plain_error(f"{named} metadata: {aggregate(errors)}")
        made[key] = value
    return made
