"""Export, restore and reset of a served cluster's objects.

    GET    /controlplane/objects    all objects as YAML that `kubectl apply`, `run` and `serve` take
    POST   /controlplane/objects    restore such YAML: objects are created, or replaced where they differ
    DELETE /controlplane/objects    reset: back to what the session began with

Each needs the group system:masters. An export is read between two steps and takes none. Restore and reset are
requests to the API server, which enter the world and its recording as those of any client do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import define, field

from controlplane.api.yaml_text import dumper
from controlplane.apiserver.front.answering import HttpAnswer
from controlplane.apiserver.requests.authorization import rbac
from controlplane.apiserver.requests.routing import no_such_method
from controlplane.apiserver.schema.status import ApiError, bad_request, too_large
from controlplane.cluster_config import APISERVER
from controlplane.errors import UsageError
from controlplane.scenarios.inputs.exported import (
    Identity,
    as_manifest,
    identity_of,
    is_made_anew,
)
from controlplane.serving.inner_requests import InnerRequests

if TYPE_CHECKING:
    from controlplane.apiserver.requests.routing import HttpRequest
    from controlplane.cluster import Cluster
    from controlplane.serving.inner_requests import Ask

__all__ = ["PATH", "Objects"]

PATH: Final = "/controlplane/objects"
YAML: Final = {
    "Content-Type": "application/yaml",
    "Content-Disposition": 'attachment; filename="objects.yaml"',
    "Cache-Control": "no-store",
}
JSON: Final = {"Content-Type": "application/json", "Cache-Control": "no-store"}
AT_ONCE: Final = 20
"""The number of objects that are read or written before other tasks run."""
DOCUMENT_LIMIT: Final = 512 << 10
"""Bytes of one YAML document."""
FIRST: Final = (
    "CustomResourceDefinition",
    "Namespace",
    "Node",
    "PriorityClass",
    "RuntimeClass",
    "CSIDriver",
    "StorageClass",
    "ServiceAccount",
    "ClusterRole",
    "Role",
    "ConfigMap",
    "Secret",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Service",
)
"""Kinds that others may need, in the order in which they are made."""
STAYS: Final = ("CustomResourceDefinition", "Namespace", "Node")
"""Kinds whose objects a reset leaves as they are where the session began with them."""
_DOMAIN: Final = "kubernetes.io/"
"""In the names of labels that kubelets and controllers set on nodes."""
TRIES: Final = 100
PAUSE_S: Final = 0.05
ERRORS: Final = 20
"""The number of refused objects that an answer names."""

Tree = dict[str, Any]


@define
class Outcome:
    """The result of a restore or a reset, by what was done to how many objects."""

    counts: Counter[str] = field(factory=Counter)
    errors: list[str] = field(factory=list)

    def to_json(self) -> Tree:
        """Return the answer to a client."""
        return {**dict(sorted(self.counts.items())), "errors": self.errors[:ERRORS]}


class Objects:
    """The objects of one session. `given` are those that its files bring; what the store holds now is the rest."""

    def __init__(self, cluster: Cluster, given: Iterable[Tree]) -> None:
        self._cluster = cluster
        self._requests: InnerRequests | None = None
        self._busy = trio.Lock()
        self._given = (*self._stored(), *given)

    def asks(self, ask: Ask) -> None:
        """Set the entrance of requests into the world."""
        self._requests = InnerRequests(ask, "controlplane-objects")

    async def page(self, http: HttpRequest) -> HttpAnswer:
        """Answer a request. Raises ApiError 400, 403, 405, 409 and 413."""
        if rbac.MASTERS not in http.user.groups:
            raise ApiError(403, "Forbidden", f"{PATH} is for {rbac.MASTERS} alone")
        if http.method == "GET":
            return HttpAnswer(200, dict(YAML), text=await self.export())
        if http.method not in ("POST", "DELETE"):
            raise no_such_method()
        if self._busy.locked():
            raise ApiError(409, "Conflict", "a restore or a reset is under way")
        async with self._busy:
            if http.method == "DELETE":
                outcome = await self._reset()
            else:
                outcome = await self._restore(await _read(http.body))
        return HttpAnswer(200, dict(JSON), outcome.to_json())

    async def reset(self) -> Outcome:
        """Restore the objects of the session's beginning, once no other restore or reset is under way."""
        async with self._busy:
            return await self._reset()

    # ------------------------------------------------------------------ export

    async def export(self) -> str:
        """Return all objects as YAML, without those that a control plane makes itself."""
        import yaml

        found: list[str] = []
        for at, tree in enumerate(_in_order(await self._manifests())):
            found.append(yaml.dump(tree, Dumper=dumper(), allow_unicode=True, explicit_start=True))
            if not at % AT_ONCE:
                await trio.lowlevel.checkpoint()
        return "".join(found)

    async def _manifests(self) -> list[Tree]:
        trees = await self._between_steps(self._stored)
        exported = {identity_of(tree): tree for tree in trees}
        found = []
        for at, tree in enumerate(trees):
            if not is_made_anew(tree, exported):
                found.append(as_manifest(tree))
            if not at % AT_ONCE:
                await trio.lowlevel.checkpoint()
        return found

    def _stored(self) -> list[Tree]:
        """All stored objects; those that are being deleted are not among them."""
        store = self._cluster.store
        every = (
            entry.object.tree
            for prefix in store.prefixes()
            for entry in store.keyspace(prefix).entries.values()
        )
        return [tree for tree in every if not tree["metadata"].get("deletionTimestamp")]

    async def _between_steps(self, look: Callable[[], list[Tree]]) -> list[Tree]:
        found: list[list[Tree]] = []
        over = trio.Event()

        def call() -> None:
            found.append(look())
            over.set()

        self._cluster.world.between_steps(call)
        await over.wait()
        return found[0]

    # ------------------------------------------------------------------ restore

    async def _restore(self, trees: Sequence[Tree]) -> Outcome:
        outcome = Outcome()
        there = {identity_of(tree): tree for tree in await self._manifests()}
        left = [(tree, "") for tree in _in_order(trees)]
        defines = any(tree["kind"] == "CustomResourceDefinition" for tree in trees)
        for _ in range(TRIES):
            again = []
            for tree, _why in left:
                done, why = await self._one(tree, there.get(self._identity(tree)))
                if done == "unknown":
                    done = "waits" if defines else "failed"
                if done == "waits":
                    again.append((tree, why))
                else:
                    outcome.counts[done] += 1
                    if why:
                        outcome.errors.append(why)
            left = again
            if not left:
                break
            await trio.sleep(PAUSE_S)  # its namespace, definition or account is on the way
        if left:
            outcome.counts["failed"] += len(left)
        outcome.errors += [why for _, why in left]
        return outcome

    def _identity(self, tree: Tree) -> Identity:
        group, kind, namespace, name = identity_of(tree)
        return group, kind, namespace or self._namespace(tree), name

    def _namespace(self, tree: Tree) -> str:
        info = self._table.by_kind(tree["apiVersion"], tree["kind"])
        namespaced = info is not None and info.namespaced
        return (tree["metadata"].get("namespace") or "default") if namespaced else ""

    @property
    def _table(self) -> Any:
        return self._cluster.servers[APISERVER].table

    async def _one(self, tree: Tree, there: Tree | None) -> tuple[str, str]:
        """Create an object, or replace it where it differs: what was done, and why if it was refused."""
        if there is not None and _same(tree, there):
            return "unchanged", ""
        base = self._path(tree)
        if base is None:
            return "unknown", f"{_shown(tree)}: no kind {tree['kind']!r} in {tree['apiVersion']!r}"
        code, answer = await self._request("POST", base, tree)
        if code < 300:
            return "created", ""
        name = tree["metadata"].get("name", "")
        if code == 409 and answer.get("reason") == "AlreadyExists":
            code, answer = await self._request("PUT", f"{base}/{name}", tree)
            if code < 300:
                return "replaced", ""
            if code == 422:  # a field that cannot change
                await self._request("DELETE", f"{base}/{name}", _DELETION)
                return "waits", f"{_shown(tree)}: {answer.get('message', '')}"
        why = f"{_shown(tree)}: {answer.get('message', code)}"
        waits = (
            code in (404, 409, 429, 500, 503, 504)
            or (code == 403 and "not found" in why)
            or (code == 403 and "being terminated" in why)
        )
        return ("waits" if waits else "failed"), why

    # ------------------------------------------------------------------ reset

    def _began(self) -> dict[Identity, Tree]:
        """The manifests of what the session began with."""
        began = {self._identity(tree): tree for tree in self._given}
        return {
            key: as_manifest(tree) for key, tree in began.items() if not is_made_anew(tree, began)
        }

    async def _reset(self) -> Outcome:
        outcome = Outcome()
        all_began = self._began()
        for tree in reversed(_in_order(await self._manifests())):
            began = all_began.get(identity_of(tree))
            if began is not None and tree["kind"] == "Node":
                await self._reset_node(tree, began, outcome)
                continue
            if began is not None and (tree["kind"] in STAYS or self._is_as_before(tree, began)):
                continue
            base = self._path(tree)
            if base is not None:
                path = f"{base}/{tree['metadata']['name']}"
                code, _ = await self._request("DELETE", path, _DELETION)
                outcome.counts["deleted"] += code < 300
        await self._settled()
        restored = await self._restore(list(all_began.values()))
        outcome.counts.update(restored.counts)
        outcome.errors += restored.errors
        return outcome

    async def _reset_node(self, tree: Tree, began: Tree, outcome: Outcome) -> None:
        """Take back what clients did to a node: cordons, taints and labels."""
        before, now = began.get("spec") or {}, tree.get("spec") or {}
        changed = ("unschedulable", "taints")
        spec = {key: value for key, value in now.items() if key not in changed}
        spec.update((key, before[key]) for key in changed if key in before)
        labels = {
            **{key: value for key, value in _labels(tree).items() if _DOMAIN in key},
            **_labels(began),
        }
        if spec != now or labels != _labels(tree):
            metadata = {**tree["metadata"], "labels": labels}
            path = f"/api/v1/nodes/{tree['metadata']['name']}"
            code, answer = await self._request(
                "PUT", path, {**tree, "metadata": metadata, "spec": spec}
            )
            outcome.counts["replaced" if code < 300 else "failed"] += 1
            if code >= 300:
                outcome.errors.append(f"{_shown(tree)}: {answer.get('message', code)}")

    def _is_as_before(self, tree: Tree, began: Tree) -> bool:
        """Return whether an object without a namespace, and so without a life of its own, is as at the beginning."""
        return not tree["metadata"].get("namespace") and _same(began, tree)

    async def _settled(self) -> None:
        """Wait until what was deleted, and what it owned, is gone; for a few seconds at most."""
        for _ in range(TRIES):
            store = self._cluster.store
            every = [
                entry.object.tree["metadata"]
                for prefix in store.prefixes()
                for entry in store.keyspace(prefix).entries.values()
            ]
            uids = {each.get("uid") for each in every}
            owners = (
                owner["uid"]
                for each in every
                for owner in each.get("ownerReferences") or ()
                if owner.get("controller")
            )
            leaving = any(each.get("deletionTimestamp") for each in every)
            if not leaving and all(uid in uids for uid in owners):
                return
            await trio.sleep(PAUSE_S)

    # ------------------------------------------------------------------ requests

    def _path(self, tree: Tree) -> str | None:
        info = self._table.by_kind(tree["apiVersion"], tree["kind"])
        if info is None:
            return None
        base = f"/apis/{info.group}/{info.version}" if info.group else f"/api/{info.version}"
        inner = f"/namespaces/{self._namespace(tree)}" if info.namespaced else ""
        return f"{base}{inner}/{info.resource}"

    async def _request(self, method: str, path: str, body: Tree) -> tuple[int, Tree]:
        """The answer of the API server to a request of the administrator."""
        assert self._requests is not None
        return await self._requests.begin(method, path, body).answer()


_DELETION: Final = {
    "kind": "DeleteOptions",
    "apiVersion": "v1",
    "propagationPolicy": "Background",
    "gracePeriodSeconds": 0,
}


def _in_order(trees: Iterable[Tree]) -> list[Tree]:
    """Objects in an order that works: what others need comes first."""
    rank = {kind: at for at, kind in enumerate(FIRST)}
    return sorted(trees, key=lambda tree: rank.get(tree["kind"], len(FIRST)))


def _labels(tree: Tree) -> Tree:
    return tree["metadata"].get("labels") or {}


def _same(wanted: Tree, there: Tree) -> bool:
    """Return whether all fields of a manifest are in what is there; defaults may be there besides."""
    return _within({**wanted, "status": None}, {**there, "status": None})


def _within(wanted: Any, there: Any) -> bool:
    if isinstance(wanted, dict) and isinstance(there, dict):
        return all(_within(value, there.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(there, list):
        return len(wanted) == len(there) and all(map(_within, wanted, there))
    return bool(wanted == there)


def _shown(tree: Tree) -> str:
    _, kind, namespace, name = identity_of(tree)
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


async def _read(body: bytes) -> list[Tree]:
    """The objects of YAML text. Raises ApiError 400 and 413."""
    from controlplane.scenarios.inputs.manifests import load_text

    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise bad_request("the text is not UTF-8") from None
    found: list[Tree] = []
    for part in re.split(r"^---[ \t]*$", text, flags=re.MULTILINE):
        if not part.strip():
            continue
        if len(part) > DOCUMENT_LIMIT:
            raise too_large(DOCUMENT_LIMIT)
        try:
            trees = [each.tree for each in load_text(part, "text")]
        except UsageError as error:
            raise bad_request(str(error)) from None
        found += trees
        await trio.lowlevel.checkpoint()
    exported = {identity_of(tree): tree for tree in found}
    return [as_manifest(tree) for tree in found if not is_made_anew(tree, exported)]
