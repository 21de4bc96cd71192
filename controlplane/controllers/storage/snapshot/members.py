"""The snapshots of a group's volumes: made once the driver has cut them.

Upstream: createSnapshotsForGroupSnapshotContent. Until the group is ready every sync writes the
statuses of all members anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.api.tree import Tree
from controlplane.client import calls
from controlplane.client.errors import is_already_exists
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.storage.snapshot.names import (
    IN_GROUP_FINALIZER,
    MEMBER_OF,
    SECRET_NAME,
    SECRET_NAMESPACE,
    member_content_name,
    member_name,
)
from controlplane.controllers.storage.snapshot.objects import (
    SNAPSHOT,
    name_of,
    replace,
    status_of,
    uid_of,
)
from controlplane.controllers.storage.snapshot.parameters import (
    GROUP_SNAPSHOTTER,
    ParameterError,
    secret_reference,
)
from controlplane.controllers.storage.snapshot.snapshots import owner_reference

if TYPE_CHECKING:
    from controlplane.client.resources import Resource
    from controlplane.controllers.storage.snapshot.classes import ClassChoice
    from controlplane.controllers.storage.snapshot.shared import Shared


class Members:
    """Makes the members of dynamic groups."""

    def __init__(self, shared: Shared, classes: ClassChoice) -> None:
        self._shared = shared
        self._classes = classes

    def create(self, group: Tree, content: Tree) -> Reconcile[None]:
        """Make or complete all members, in the order in which the driver named them."""
        status = status_of(content)
        handle = status.get(self._shared.group.handle_field)
        infos = status.get(self._shared.group.members_field) or ()
        if handle is None or not infos:
            return
        for info in infos:
            yield from self._create(group, content, handle, info)

    def _create(self, group: Tree, content: Tree, handle: str, info: Tree) -> Reconcile[None]:
        driver = content["spec"]["driver"]
        volumes = self._shared.volumes.by_index("handle", f"{driver}^{info['volumeHandle']}")
        volume = volumes[0].tree if len(volumes) == 1 else None
        named = uid_of(content if self._shared.flags.named_by_content else group)
        member = self._member(group, named, info, volume)
        member_content = self._member_content(group, named, content, handle, info, volume)
        namespace = group["metadata"]["namespace"]
        made_content = yield from self._made(SNAPSHOT.contents, "", member_content)
        made = yield from self._made(SNAPSHOT.resource, namespace, member)
        uid = uid_of(made)
        if not uid:
            raise Retry(f"snapshot {name_of(member)} has no UID")
        shared = self._shared
        body = [replace("/spec/volumeSnapshotRef/uid", uid)]
        yield from shared.patch_content(SNAPSHOT, made_content, body)
        body = [
            replace("/status", {}),
            replace(f"/status/{SNAPSHOT.bound_field}", name_of(made_content)),
        ]
        yield from shared.patch(SNAPSHOT, made, body, "status")
        body = [
            replace("/status", {}),
            replace("/status/snapshotHandle", info["snapshotHandle"]),
            replace("/status/volumeGroupSnapshotHandle", handle),
        ]
        body += [
            replace(f"/status/{field}", info[field])
            for field in ("creationTime", "restoreSize", "readyToUse")
            if info.get(field) is not None
        ]
        yield from shared.patch_content(SNAPSHOT, made_content, body, "status")

    def _made(self, resource: Resource[Any], namespace: str, tree: Tree) -> Reconcile[Tree]:
        """Create an object, or take the one that is there as the server has it now (#1354)."""
        try:
            created: Tree = (yield from calls.create(resource, namespace, tree)).tree
            return created
        except RequestFailed as error:
            if not is_already_exists(error):
                raise
            if not self._shared.fixes.fixed("1354"):
                # The client answered an empty object, and the error was taken for success.
                raise Retry("resource name may not be empty") from None
        found: Tree = (yield from calls.get(resource, namespace, name_of(tree))).tree
        return found

    def _member(self, group: Tree, named: str, info: Tree, volume: Tree | None) -> Tree:
        claim = "" if volume is None else volume["spec"]["claimRef"]["name"]
        return {
            "apiVersion": SNAPSHOT.resource.api_version,
            "kind": SNAPSHOT.kind,
            "metadata": {
                "name": member_name(named, info["volumeHandle"]),
                "namespace": group["metadata"]["namespace"],
                "ownerReferences": [owner_reference(self._shared.group, group)],
                "finalizers": [IN_GROUP_FINALIZER],
            },
            "spec": {"source": {"persistentVolumeClaimName": claim}},
        }

    def _member_content(
        self,
        group: Tree,
        named: str,
        content: Tree,
        handle: str,
        info: Tree,
        volume: Tree | None,
    ) -> Tree:
        name = member_content_name(named, info["volumeHandle"])
        annotations = {MEMBER_OF: handle}
        annotations.update(self._secret(content, name))
        spec: Tree = {
            "volumeSnapshotRef": {
                "kind": SNAPSHOT.kind,
                "name": member_name(named, info["volumeHandle"]),
                "namespace": group["metadata"]["namespace"],
            },
            "deletionPolicy": content["spec"]["deletionPolicy"],
            "driver": content["spec"]["driver"],
            "source": {"volumeHandle": info["volumeHandle"]},
        }
        mode = None if volume is None else volume["spec"].get("volumeMode")
        if mode:
            spec["sourceVolumeMode"] = mode
        return {
            "apiVersion": SNAPSHOT.contents.api_version,
            "kind": SNAPSHOT.content_kind,
            "metadata": {"name": name, "annotations": annotations},
            "spec": spec,
        }

    def _secret(self, content: Tree, name: str) -> Tree:
        """The secret of the group's class; templates know nothing but the content's name here."""
        named = content["spec"].get(self._shared.group.class_field)
        if named is None:
            return {}
        found = self._classes.get(self._shared.group, named)
        try:
            secret = secret_reference(GROUP_SNAPSHOTTER, found.get("parameters") or {}, name, None)
        except ParameterError as error:
            raise Retry(
                f"failed to get secret reference for group snapshot content {name}: {error}"
            ) from None
        if secret is None:
            return {}
        return {SECRET_NAME: secret.name, SECRET_NAMESPACE: secret.namespace}
