"""Common parts of the snapshot controller: caches, private stores, queues, and reports of errors."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from attrs import frozen

from controlplane.api.request import JSON_PATCH
from controlplane.api.tree import Tree
from controlplane.client import calls
from controlplane.client.resources import CLAIMS, VOLUMES
from controlplane.controllers.common.controller import WARNING
from controlplane.controllers.common.effects import Reconcile, RequestFailed
from controlplane.controllers.common.ref_manager import namespace_index
from controlplane.controllers.storage.snapshot.metrics import Metrics
from controlplane.controllers.storage.snapshot.objects import (
    SNAPSHOT,
    Kind,
    Patch,
    error_status,
    group_kind,
    owner_group,
    status_of,
    with_status,
)
from controlplane.controllers.storage.snapshot.store import PrivateStore

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.controllers.common.controller import Caches, Host


@frozen
class Flags:
    """The flags of the snapshot controller that change what it decides."""

    groups: bool = True
    """Feature gate CSIVolumeGroupSnapshot."""
    prevent_volume_mode_conversion: bool = True
    group_version: str = "v1"
    """Of the API of groups, as the process was built with it."""
    named_by_content: bool = False
    """Names of members are made from the uid of the group's content, as before 8.3, not of the group."""


def _by_handle(obj: Object[Any]) -> tuple[str, ...]:
    csi = obj.tree["spec"].get("csi")
    return (f"{csi['driver']}^{csi['volumeHandle']}",) if csi else ()


class Shared:
    """The memory of one snapshot controller process."""

    def __init__(self, host: Host, caches: Caches, flags: Flags) -> None:
        self.host = host
        self.flags = flags
        self.fixes = host.fixes
        self.metrics = Metrics()
        self.group = group_kind(flags.group_version)
        self.snapshots = caches.of(
            SNAPSHOT.resource, namespace=namespace_index, group=self._by_owner
        )
        self.contents = caches.of(SNAPSHOT.contents)
        self.classes = caches.of(SNAPSHOT.classes)
        self.claims = caches.of(CLAIMS, namespace=namespace_index)
        self.volumes = caches.of(VOLUMES, handle=_by_handle)
        self.stores = {SNAPSHOT: PrivateStore(), self.group: PrivateStore()}
        self.content_stores = {SNAPSHOT: PrivateStore(), self.group: PrivateStore()}
        self.listers = {SNAPSHOT: self.snapshots}
        self.content_listers = {SNAPSHOT: self.contents}
        self.class_listers = {SNAPSHOT: self.classes}
        self.queues = {SNAPSHOT: host.queue("snapshots")}
        self.content_queues = {SNAPSHOT: host.queue("contents")}
        if flags.groups:
            self.listers[self.group] = caches.of(self.group.resource)
            self.content_listers[self.group] = caches.of(self.group.contents)
            self.class_listers[self.group] = caches.of(self.group.classes)
            self.queues[self.group] = host.queue("groupsnapshots")
            self.content_queues[self.group] = host.queue("groupcontents")
        self._begun = False

    def _by_owner(self, obj: Object[Any]) -> tuple[str, ...]:
        owner = owner_group(self.group, obj.tree)
        return (owner["uid"],) if owner else ()

    def begin(self) -> None:
        """Before the first key is worked on the stores are filled from the caches."""
        if self._begun:
            return
        self._begun = True
        for kind, lister in self.listers.items():
            self.stores[kind].fill(lister)
        for kind, lister in self.content_listers.items():
            self.content_stores[kind].fill(lister)

    def to_be_created(self, kind: Kind, content: Tree) -> Tree:
        """Return a content as it is created: upstream gives it its finalizer once it has heard of it.

        Gate here10 (no issue known). Until then a deletion of the snapshot removes the content at once, and what the
        driver has made or still makes stays in the storage.
        """
        if not self.fixes.fixed("here10"):
            return content
        metadata = {**content["metadata"], "finalizers": [kind.content_finalizer]}
        return {**content, "metadata": metadata}

    def content(self, kind: Kind, name: str) -> Tree | None:
        """A content as last worked with."""
        return self.content_stores[kind].get(name)

    def event(self, tree: Tree, kind: str, reason: str, message: str) -> None:
        """Report an event about an object."""
        metadata = tree["metadata"]
        about = {
            "apiVersion": tree["apiVersion"],
            "kind": tree["kind"],
            "name": metadata.get("name", ""),
            "namespace": metadata.get("namespace", ""),
            "resourceVersion": metadata.get("resourceVersion", ""),
            "uid": metadata.get("uid", ""),
        }
        named = {k: v for k, v in about.items() if v or k == "name"}
        self.host.event(named, kind, reason, message)

    def fail(
        self, kind: Kind, tree: Tree, reason: str, message: str, *, unready: bool
    ) -> Reconcile[None]:
        """Write an error into a (group) snapshot's status, once, and report it even if that fails.

        A failed write is reported about an object without a name: the client answers an empty one.
        """
        status = status_of(tree)
        known = status.get("error") or {}
        if known.get("message") == message:
            return
        status = {**status, "error": error_status(message, self.host.now)}
        if unready:
            status["readyToUse"] = False
        try:
            written = yield from calls.update(kind.resource, with_status(tree, status), "status")
        except RequestFailed:
            empty = {"apiVersion": kind.resource.api_version, "kind": kind.kind, "metadata": {}}
            self.event(empty, WARNING, reason, message)
            raise
        self.event(written.tree, WARNING, reason, message)
        self.stores[kind].put(written.tree)

    def try_fail(
        self, kind: Kind, tree: Tree, reason: str, message: str, *, unready: bool
    ) -> Reconcile[None]:
        """The same where another error is returned anyway, which decides about the retry."""
        with suppress(*RequestFailed):
            yield from self.fail(kind, tree, reason, message, unready=unready)

    def patch(self, kind: Kind, tree: Tree, body: list[Patch], sub: str = "") -> Reconcile[Tree]:
        """Patch a (group) snapshot; neither version nor uid guards it."""
        metadata = tree["metadata"]
        patched = yield from calls.patch(
            kind.resource,
            metadata["namespace"],
            metadata["name"],
            body,
            subresource=sub,
            kind=JSON_PATCH,
        )
        found: Tree = patched.tree
        return found

    def patch_content(
        self, kind: Kind, tree: Tree, body: list[Patch], sub: str = ""
    ) -> Reconcile[Tree]:
        """Patch a content; neither version nor uid guards it."""
        patched = yield from calls.patch(
            kind.contents, "", tree["metadata"]["name"], body, subresource=sub, kind=JSON_PATCH
        )
        found: Tree = patched.tree
        return found
