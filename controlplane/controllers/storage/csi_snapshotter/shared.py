"""Common parts of the two halves of the sidecar: its flags, stores and its writes of contents.

Upstream: pkg/sidecar-controller/snapshot_controller.go, groupsnapshot_helper.go.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from attrs import frozen

from controlplane.api.request import JSON_PATCH
from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.client import calls
from controlplane.client.resources import SECRETS
from controlplane.controllers.common.controller import WARNING
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.storage.csi.messages import SECOND, call
from controlplane.controllers.storage.snapshot.objects import (
    SNAPSHOT,
    Kind,
    Patch,
    annotations_of,
    error_status,
    finalizers_of,
    group_kind,
    name_of,
    remove_annotation,
    replace,
    status_of,
    update_error,
)
from controlplane.controllers.storage.snapshot.parameters import ParameterError, secret_reference
from controlplane.controllers.storage.snapshot.store import PrivateStore

if TYPE_CHECKING:
    from controlplane.controllers.common.controller import Caches, Host
    from controlplane.controllers.storage.snapshot.parameters import Secret, SecretReference


@frozen
class SidecarFlags:
    """The driver that a sidecar serves, its actor, and the flags that change its decisions."""

    driver: str
    process: str
    """The actor that answers for the driver."""
    groups: bool = True
    timeout_ns: int = 60 * SECOND
    name_prefix: str = "snapshot"
    name_uuid_length: int = -1
    group_name_prefix: str = "groupsnapshot"
    group_name_uuid_length: int = -1
    extra_create_metadata: bool = False
    group_version: str = "v1"
    """Of the API of groups, as the process was built with it."""


class SidecarShared:
    """The memory of one sidecar process."""

    def __init__(self, host: Host, caches: Caches, flags: SidecarFlags) -> None:
        self.host = host
        self.flags = flags
        self.fixes = host.fixes
        self.group = group_kind(flags.group_version)
        kinds = (SNAPSHOT, self.group) if flags.groups else (SNAPSHOT,)
        names = {SNAPSHOT: "contents", self.group: "groupcontents"}
        self.listers = {kind: caches.of(kind.contents) for kind in kinds}
        self.classes = {kind: caches.of(kind.classes) for kind in kinds}
        self.stores = {kind: PrivateStore() for kind in kinds}
        self.queues = {kind: host.queue(names[kind]) for kind in kinds}
        self._begun = False

    def begin(self) -> None:
        """Before the first key is worked on the stores are filled from the caches."""
        if not self._begun:
            self._begun = True
            for kind, lister in self.listers.items():
                self.stores[kind].fill(lister)

    def call(self, method: str, **fields: Any) -> Reconcile[Mapping[str, Any]]:
        """Call the driver; CsiError."""
        return (yield from call(self.flags.process, method, fields, self.flags.timeout_ns))

    def event(self, kind: Kind, tree: Tree | None, reason: str, message: str) -> None:
        """Warn about a content; None is the nameless object that a failed write answers."""
        about = {"apiVersion": kind.contents.api_version, "kind": kind.content_kind, "name": ""}
        if tree is not None:
            metadata = tree["metadata"]
            about["name"] = metadata["name"]
            about["uid"] = metadata["uid"]
            about["resourceVersion"] = metadata["resourceVersion"]
        self.host.event(about, WARNING, reason, message)

    def class_named(self, kind: Kind, name: str) -> Tree:
        """A class by name, from the cache; Retry."""
        found = self.classes[kind].get(name)
        if found is None:
            singular = f"{kind.kind.lower()}class"
            raise Retry(f"{singular}.{kind.classes.group} {quote(name)} not found")
        return found.tree

    # ------------------------------------------------------------------ secrets

    def annotated_secret(self, kind: Kind, content: Tree) -> Reconcile[dict[str, str]]:
        """The secret that the snapshot controller noted on a content, read from the server."""
        annotations = annotations_of(content)
        domain = "snapshot" if kind is SNAPSHOT else "groupsnapshot"
        name = annotations.get(f"{domain}.storage.kubernetes.io/deletion-secret-name")
        namespace = annotations.get(f"{domain}.storage.kubernetes.io/deletion-secret-namespace")
        if name is None or namespace is None:
            return {}
        if not name or not namespace:
            raise Retry(
                f"cannot retrieve secrets for {kind.word} content {quote(name_of(content))}, "
                "err: secret name or namespace not specified"
            )
        try:
            return (yield from self._secret(name, namespace))
        except RequestFailed:
            raise Retry(
                f"cannot get credentials for {kind.word} content {quote(name_of(content))}"
            ) from None

    def class_secret(self, kind: Kind, content: Tree, secret: Secret) -> Reconcile[dict[str, str]]:
        """A secret that is not noted on the content, but that its class names."""
        named = content["spec"].get(kind.class_field)
        if named is None:
            return {}
        name, word = name_of(content), kind.word
        try:
            found = self.class_named(kind, named)
        except Retry as error:
            raise Retry(
                f"failed to get {word} class {named} for {word} content {name}: {error}"
            ) from None
        try:
            reference = secret_reference(secret, found.get("parameters") or {}, name, None)
            return (yield from self._referenced_secret(reference))
        except (ParameterError, Retry) as error:
            raise Retry(
                f"failed to get secret reference for {word} content {name}: {error}"
            ) from None

    def inputs(self, kind: Kind, content: Tree) -> Reconcile[tuple[dict[str, str], dict[str, str]]]:
        """The class's parameters and the secret with which a content's snapshot is made."""
        named = content["spec"].get(kind.class_field)
        if named is None:
            raise Retry(
                f"failed to take {kind.word} {name_of(content)} without a {kind.word} class"
            )
        found = self.class_named(kind, named)
        secrets = yield from self.annotated_secret(kind, content)
        return dict(found.get("parameters") or {}), secrets

    def _referenced_secret(self, reference: SecretReference | None) -> Reconcile[dict[str, str]]:
        """The secret that a class names."""
        if reference is None:
            return {}
        try:
            return (yield from self._secret(reference.name, reference.namespace))
        except RequestFailed as error:
            place = f"{reference.name} in namespace {reference.namespace}"
            raise Retry(f"error getting secret {place}: {error}") from None

    def _secret(self, name: str, namespace: str) -> Reconcile[dict[str, str]]:
        tree = (yield from calls.get(SECRETS, namespace, name)).tree
        data: Mapping[str, str] = tree.get("data") or {}
        return {key: base64.b64decode(value).decode() for key, value in sorted(data.items())}

    # ------------------------------------------------------------------ writes

    def patch(self, kind: Kind, content: Tree, body: list[Patch], sub: str = "") -> Reconcile[Tree]:
        """Patch a content, unguarded; a failure names the content."""
        try:
            written = yield from calls.patch(
                kind.contents, "", name_of(content), body, subresource=sub, kind=JSON_PATCH
            )
        except RequestFailed as error:
            raise update_error(name_of(content), error) from None
        tree: Tree = written.tree
        return tree

    def mark_being_created(self, kind: Kind, content: Tree) -> Reconcile[Tree]:
        """Note, before the driver is called, that a snapshot may be in the making (#261)."""
        annotations = annotations_of(content)
        if kind.being_created in annotations or not self.fixes.fixed("261"):
            return content
        body = [replace("/metadata/annotations", {**annotations, kind.being_created: "yes"})]
        written = yield from self.patch(kind, content, body)
        self.stores[kind].put(written)
        return written

    def unmark_being_created(self, kind: Kind, content: Tree) -> Reconcile[Tree]:
        """The driver has certainly stopped making it, or has made it."""
        if kind.being_created not in annotations_of(content):
            return content
        written = yield from self.patch(kind, content, remove_annotation(kind.being_created))
        self.stores[kind].put(written)
        return written

    def remove_finalizer(self, kind: Kind, content: Tree) -> Reconcile[None]:
        """Let a content go."""
        held = finalizers_of(content)
        if kind.content_finalizer not in held:
            return
        left = [each for each in held if each != kind.content_finalizer]
        written = yield from self.patch(kind, content, [replace("/metadata/finalizers", left)])
        self.stores[kind].put(written)

    def fail(self, kind: Kind, content: Tree, reason: str, message: str) -> Reconcile[None]:
        """Write an error into a content's status, once, and report it even if that fails."""
        status = content.get("status")
        if ((status or {}).get("error") or {}).get("message") == message:
            return
        error = error_status(message, self.host.now)
        if status is None:
            body = [replace("/status", {"readyToUse": False, "error": error})]
        else:
            body = [replace("/status/error", error), replace("/status/readyToUse", False)]
        written: Tree | None = None
        with suppress(Retry):  # the error that is reported decides about the retry
            written = yield from self.patch(kind, content, body, "status")
        self.event(kind, written, reason, message)
        if written is not None:
            self.stores[kind].put(written)

    def live(self, kind: Kind, content: Tree) -> Reconcile[Tree]:
        """A content as the server has it now."""
        try:
            tree: Tree = (yield from calls.get(kind.contents, "", name_of(content))).tree
        except RequestFailed as error:
            raise Retry(
                f"error get {kind.word} content {name_of(content)} from api server: {error}"
            ) from None
        return tree

    def clear_status(self, kind: Kind, content: Tree, fields: tuple[str, ...]) -> Reconcile[Tree]:
        """Forget what was deleted in the storage."""
        tree = yield from self.live(kind, content)
        status = {key: value for key, value in status_of(tree).items() if key not in fields}
        return (yield from self.update_status(kind, {**tree, "status": status}))

    def update_status(self, kind: Kind, tree: Tree) -> Reconcile[Tree]:
        """Write a whole status, guarded by the version."""
        try:
            written = yield from calls.update(kind.contents, tree, "status")
        except RequestFailed as error:
            raise update_error(name_of(tree), error) from None
        found: Tree = written.tree
        return found
