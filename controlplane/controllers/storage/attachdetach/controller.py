"""The attach-detach controller: VolumeAttachments for volumes of scheduled pods, and the volumes in nodes' status.

Upstream: pkg/controller/volume/attachdetach (reconciler, populator, statusupdater), the operations of
pkg/volume/util/operationexecutor and the waiting of pkg/volume/csi/csi_attacher.go. Upstream looks ten times a
second; passes that would find nothing are left out. Points: `attachdetach.detach` and `attachdetach.attach` (before
a volume is looked at that is to be detached, or attached), `attachdetach.populate`, `attachdetach.verify`,
`attachdetach.wait` (an operation waits for what the attacher says), and one for every request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.csi import (
    KEEPS_TERMINATED,
    MANAGED_ATTACH,
    attachment_name,
    driver_and_handle,
)
from controlplane.api.times import MILLISECOND, SECOND
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_already_exists, is_not_found
from controlplane.client.resources import (
    CLAIMS,
    CSI_DRIVERS,
    NODES,
    PODS,
    VOLUME_ATTACHMENTS,
    VOLUMES,
    Resource,
)
from controlplane.controllers.common.controller import (
    NORMAL,
    WARNING,
    Controller,
    Handlers,
    Periodic,
    Work,
    ignore,
)
from controlplane.controllers.common.effects import Reconcile, RequestFailed
from controlplane.controllers.storage.attachdetach.actual import ActualState, Attached
from controlplane.controllers.storage.attachdetach.desired import DesiredState, Wanted
from controlplane.controllers.storage.attachdetach.operations import ATTACH, DETACH, Key, Operations
from controlplane.controllers.storage.attachdetach.specs import (
    Spec,
    is_claimed_by,
    is_terminated,
    spec_of,
    volume_name,
)
from controlplane.controllers.storage.volume.binder import claims_of
from controlplane.decisions import Point, Sleep, Spawn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from controlplane.api.node import Node
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.controllers.common.controller import Caches, Host

LOOP_NS: Final = 100 * MILLISECOND
"""The pause between two passes."""
POPULATE_NS: Final = 60 * SECOND
VERIFY_NS: Final = 60 * SECOND
MOST_WAIT_FOR_UNMOUNT_NS: Final = 360 * SECOND
"""The longest time for which an unwanted volume of a node that is not ready may be in use there."""
ANSWER_NS: Final = 120 * SECOND
"""So long an operation waits for the attacher."""
FIRST_LOOK_NS: Final = 500 * MILLISECOND
LARGEST_LOOK_NS: Final = 7 * SECOND
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
LOOK: Final = "all"
"""The only key of the reconciler's queue."""


class _Failed(Exception):
    """An operation failed; the text is for an event."""


def _claim_index(obj: Object[Pod]) -> tuple[str, ...]:
    return tuple(f"{obj.namespace}/{name}" for name in claims_of(obj.view))


class AttachDetachController(Controller):
    """Attaches the volumes of scheduled pods, and detaches those that no pod wants and no node uses any more."""

    name = "persistentvolume-attach-detach-controller"
    component = "attachdetach-controller"

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.desired = DesiredState()
        self.actual = ActualState()
        self._operations = Operations()
        self._claim_queue = host.queue("attachdetach.claims")
        self._pass_queue = host.queue("attachdetach.reconciler")
        self._pods = caches.of(PODS, claim=_claim_index)
        self._nodes = caches.of(NODES)
        self._claims = caches.of(CLAIMS)
        self._volumes = caches.of(VOLUMES)
        self._drivers = caches.of(CSI_DRIVERS)
        self._attachments = caches.of(VOLUME_ATTACHMENTS)
        self._populated = False

    def work(self) -> tuple[Work, ...]:
        """Claims that may have become bound, and the reconciler's passes."""
        return (
            Work("attachdetach.claims", self._sync_claim, workers=1),
            Work("attachdetach.reconciler", self._reconcile, workers=1),
        )

    def periodic(self) -> tuple[Periodic, ...]:
        """The populator, and the check whether what is attached still is."""
        return (
            Periodic("attachdetach.populator", POPULATE_NS, self._populate),
            Periodic("attachdetach.verifier", VERIFY_NS, self._verify, after_ns=VERIFY_NS),
        )

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Pods and nodes change what is desired at once; claims wait for their worker."""
        claim: Callable[..., None] = lambda obj: self._claim_queue.add(obj.key)  # noqa: E731
        return {
            PODS: Handlers(
                lambda obj: self._pod_changed(obj.view),
                lambda _old, new: self._pod_changed(new.view),
                lambda obj, _unknown: self._drop(obj.view),
            ),
            NODES: Handlers(self._node_added, self._node_changed, self._node_gone),
            CLAIMS: Handlers(claim, lambda _old, new: claim(new), ignore),
        }

    def _look(self) -> None:
        """There may be something for the reconciler."""
        self._pass_queue.add_after(LOOK, LOOP_NS)

    # ------------------------------------------------------------------ what is desired

    def _pod_changed(self, pod: Pod) -> None:
        """A scheduled pod wants its volumes, unless it has ended and its node does not keep them."""
        node = pod.spec.node_name
        if not node or not pod.tree["spec"].get("volumes") or not self.desired.has_node(node):
            return
        if is_terminated(pod) and not self.desired.keeps(node):
            self._drop(pod)
            return
        changed = False
        for spec in self._specs_of(pod):
            changed = self.desired.add_pod(pod, spec, node) or changed
        if changed:
            self._look()

    def _drop(self, pod: Pod) -> None:
        """A pod wants nothing any more."""
        node = pod.spec.node_name
        if not node or not pod.tree["spec"].get("volumes"):
            return
        changed = False
        for spec in self._specs_of(pod):
            changed = self.desired.delete_pod(pod.uid, spec.unique, node) or changed
        if changed:
            self._look()

    def _specs_of(self, pod: Pod) -> list[Spec]:
        """The volumes of a pod that are to be attached, as far as its claims are bound by now."""
        found = []
        for name in claims_of(pod):
            spec = self._spec_of_claim(f"{pod.namespace}/{name}")
            if spec is not None and self._is_attachable(spec.driver):
                found.append(spec)
        return found

    def _spec_of_claim(self, key: str) -> Spec | None:
        claim = self._claims.get(key)
        bound = "" if claim is None else volume_name(claim.view)
        volume = self._volumes.get(bound) if bound else None
        if claim is None or volume is None or not is_claimed_by(volume.view, claim.view):
            return None
        return spec_of(volume.view)

    def _is_attachable(self, driver: str) -> bool:
        """A driver that says nothing of itself is one that attaches."""
        found = self._drivers.get(driver)
        return found is None or found.tree["spec"].get("attachRequired") is not False

    def _sync_claim(self, key: str) -> Reconcile[None]:
        """A claim may be bound by now: the pods that name it want its volume."""
        claim = self._claims.get(key)
        if claim is None or not volume_name(claim.view):
            return
        for obj in self._pods.by_index("claim", key):
            if obj.view.spec.node_name and not is_terminated(obj.view):
                self._pod_changed(obj.view)
        yield from ()

    def _populate(self) -> Reconcile[None]:
        """At first everything is taken in; then, from time to time, what handlers cannot have noticed is put right.

        Upstream: populateActualStateOfWorld and populateDesiredStateOfWorld, then the populator's loop.
        """
        yield Point("attachdetach.populate")
        if not self._populated:
            self._take_in_attachments()
            self._populated = True
            self._look()
        for pod, volume, node in self.desired.pods():
            found = self._pods.get(pod.key)
            gone = found is None or found.uid != pod.uid
            ended = is_terminated(pod if found is None else found.view)
            if gone or (ended and not self.desired.keeps(node)):
                if self.desired.delete_pod(pod.uid, volume, node):
                    self._look()
        for obj in self._pods:
            self._pod_changed(obj.view)

    def _take_in_attachments(self) -> None:
        for obj in self._nodes:
            node = obj.view
            self._look_after(node)
            status: dict[str, Any] = node.tree.get("status") or {}
            for each in status.get("volumesAttached") or ():
                self.actual.mark_attached(each["name"], self._known(each["name"]), node.name)
            self.actual.set_mounted(node.name, status.get("volumesInUse") or ())
        for attachment in self._attachments:
            tree = attachment.tree["spec"]
            volume = self._volumes.get(tree["source"].get("persistentVolumeName") or "")
            spec = None if volume is None else spec_of(volume.view)
            if spec is not None and self.actual.get(spec.unique, tree["nodeName"]) is None:
                self.actual.mark_uncertain(spec.unique, spec, tree["nodeName"])

    def _known(self, unique: str) -> Spec | None:
        """The volume of this name, if there still is one."""
        for obj in self._volumes:
            spec = spec_of(obj.view)
            if spec is not None and spec.unique == unique:
                return spec
        return None

    # ------------------------------------------------------------------ nodes

    def _look_after(self, node: Node) -> None:
        if MANAGED_ATTACH in node.annotations:
            keeps = node.annotations.get(KEEPS_TERMINATED) == "true"
            self.desired.add_node(node.name, keeps=keeps)

    def _node_added(self, obj: Object[Node]) -> None:
        self._take_in_node(obj.view)
        self.actual.report_again(obj.name)

    def _node_changed(self, old: Object[Node], new: Object[Node]) -> None:
        self._take_in_node(new.view)
        if _condition(old.view) != _condition(new.view) or _taints(old.view) != _taints(new.view):
            self._look()

    def _node_gone(self, obj: Object[Node], _unknown: bool) -> None:
        self.desired.delete_node(obj.name)
        self._mounted(obj.view)
        self._look()

    def _take_in_node(self, node: Node) -> None:
        known = self.desired.has_node(node.name)
        self._look_after(node)
        self._mounted(node)
        if not known and self.desired.has_node(node.name):
            self._look()

    def _mounted(self, node: Node) -> None:
        in_use = (node.tree.get("status") or {}).get("volumesInUse") or ()
        if self.actual.set_mounted(node.name, in_use):
            self._look()

    def _is_ready(self, node: str) -> bool:
        found = self._nodes.get(node)
        return found is not None and _condition(found.view) == "True"

    def _is_out_of_service(self, node: str) -> bool:
        found = self._nodes.get(node)
        return found is not None and OUT_OF_SERVICE in _taints(found.view)

    # ------------------------------------------------------------------ the reconciler

    def _reconcile(self, _key: str) -> Reconcile[None]:
        """One pass: detach first, so that what moves to another node can be attached there."""
        if not self._populated:
            return
        for each in self.actual.attached():
            if not self.desired.has(each.volume, each.node):
                yield Point("attachdetach.detach")
                yield from self._detach_if_possible(each)
        for wanted in self.desired.wanted():
            found = self.actual.get(wanted.spec.unique, wanted.node)
            if found is not None and found.confirmed:
                if not self._is_busy(wanted):
                    found.asked_since = None
                continue
            yield Point("attachdetach.attach")
            yield from self._attach_if_possible(wanted)
        for node in self.actual.due_reports():
            yield from self._report(node)

    def _is_busy(self, wanted: Wanted) -> bool:
        spec = wanted.spec
        return self._operations.pending(spec.unique, wanted.node, shared=spec.shared)

    def _detach_if_possible(self, each: Attached) -> Reconcile[None]:
        volume, node, shared = each.volume, each.node, each.shared
        if self.desired.has(volume, node) or self._operations.pending(volume, node, shared=shared):
            return
        waits = self._operations.waits(volume, node, DETACH, self.host.now, shared=shared)
        if waits:
            self._pass_queue.add_after(LOOK, waits)
            return
        if self.actual.get(volume, node) is None:
            return
        elapsed = self.actual.ask_detach(each, self.host.now)
        late = elapsed > MOST_WAIT_FOR_UNMOUNT_NS
        out_of_service = self._is_out_of_service(node)
        forced = late and not self._is_ready(node)
        if each.mounted and not forced and not out_of_service:
            if not late:
                self._pass_queue.add_after(LOOK, MOST_WAIT_FOR_UNMOUNT_NS - elapsed + LOOP_NS)
            return
        self.actual.report_no_more(volume, node)
        if not (yield from self._report(node)):
            self.actual.report(volume, node)
            return
        key = self._operations.begin(volume, node, DETACH, shared=shared)
        checked = not (late or out_of_service)
        yield Spawn("attachdetach.detach", self._detach(each, key, checked=checked))

    def _attach_if_possible(self, wanted: Wanted) -> Reconcile[None]:
        spec, node = wanted.spec, wanted.node
        if self._is_busy(wanted):
            return
        if self.actual.is_attached(spec.unique, node):
            return
        if not self.desired.has(spec.unique, node):
            return
        if not spec.shared:
            others = self.actual.nodes_of(spec.unique)
            if others:
                if not wanted.told_of_others:
                    self._tell_of_others(wanted, others)
                    wanted.told_of_others = True
                return
        waits = self._operations.waits(spec.unique, node, ATTACH, self.host.now, shared=spec.shared)
        if waits:
            self._pass_queue.add_after(LOOK, waits)
            return
        key = self._operations.begin(spec.unique, node, ATTACH, shared=spec.shared)
        pods = tuple(wanted.pods.values())
        yield Spawn("attachdetach.attach", self._attach(spec, node, pods, key))

    def _tell_of_others(self, wanted: Wanted, nodes: Sequence[str]) -> None:
        """Report to waiting pods which pods have the volume; pods of other namespaces are only counted."""
        elsewhere = [node for node in nodes if node != wanted.node]
        users = self.desired.pods_on(elsewhere, wanted.spec.unique)
        for pod in wanted.pods.values():
            near = [each.name for each in users if each.namespace == pod.namespace]
            far = len(users) - len(near)
            if not users:
                who = "exclusively attached to one node and can't be attached to another"
            elif not near:
                who = f"used by {far} pod(s) in different namespaces"
            else:
                who = f"used by pod(s) {', '.join(near)}"
                who += f" and {far} pod(s) in different namespaces" if far else ""
            text = f'Multi-Attach error for volume "{wanted.spec.name}" Volume is already {who}'
            self.host.event(pod, WARNING, "FailedAttachVolume", text)

    def _report(self, node: str) -> Reconcile[bool]:
        """Tell a node what is attached to it, if there is something new; whether it was not refused."""
        volumes = self.actual.take_report(node)
        if volumes is None or self._nodes.get(node) is None:
            return True
        shown = [{"name": volume, "devicePath": ""} for volume in volumes]
        body = {"status": {"volumesAttached": shown or None}}
        try:
            yield from calls.patch(NODES, "", node, body, subresource="status")
        except RequestFailed:
            self.actual.report_again(node)
            self._look()
            return False
        return True

    # ------------------------------------------------------------------ operations

    def _attach(self, spec: Spec, node: str, pods: Sequence[Pod], key: Key) -> Reconcile[None]:
        try:
            yield from self._make_attachment(spec, node)
        except _Failed as error:
            self.actual.mark_uncertain(spec.unique, spec, node)
            text = f'AttachVolume.Attach failed for volume "{spec.name}" : {error}'
            for pod in pods:
                self.host.event(pod, WARNING, "FailedAttachVolume", text)
            self._operations.failed(key, self.host.now)
        else:
            text = f'AttachVolume.Attach succeeded for volume "{spec.name}" '
            for pod in pods:
                self.host.event(pod, NORMAL, "SuccessfulAttachVolume", text)
            self.actual.mark_attached(spec.unique, spec, node)
            self._operations.succeeded(key)
        self._look()

    def _make_attachment(self, spec: Spec, node: str) -> Reconcile[None]:
        name = attachment_name(spec.handle, spec.driver, node)
        if self._attachments.get(name) is None:
            source = {"persistentVolumeName": spec.name}
            tree = {
                "apiVersion": VOLUME_ATTACHMENTS.api_version,
                "kind": "VolumeAttachment",
                "metadata": {"name": name},
                "spec": {"attacher": spec.driver, "nodeName": node, "source": source},
            }
            try:
                yield from calls.create(VOLUME_ATTACHMENTS, "", tree)
            except RequestFailed as error:
                if not (isinstance(error, ApiError) and is_already_exists(error)):
                    text = f"kubernetes.io/csi: attacher.Attach failed: {error}"
                    raise _Failed(text) from None

        def is_attached() -> bool:
            found = self._attachments.get(name)
            if found is None:  # it was just made, and has not been heard of
                return False
            if found.metadata.get("deletionTimestamp"):
                raise _Failed("volume attachment is being deleted")
            status = found.tree.get("status") or {}
            if not status.get("attached") and status.get("attachError"):
                raise _Failed(status["attachError"].get("message", ""))
            return bool(status.get("attached"))

        yield from self._wait(is_attached, spec, "attach")

    def _detach(self, each: Attached, key: Key, *, checked: bool) -> Reconcile[None]:
        try:
            if checked:
                yield from self._check_unused(each)
            yield from self._delete_attachment(each)
        except _Failed:
            # Only an attachment that succeeds is shown on the node again.
            self.actual.mark_uncertain(each.volume, each.spec, each.node)
            self._operations.failed(key, self.host.now)
        else:
            self.actual.mark_detached(each.volume, each.node)
            self._operations.succeeded(key)
        self._look()

    def _check_unused(self, each: Attached) -> Reconcile[None]:
        """The node itself is asked for: what is known of it may be old."""
        try:
            node = yield from calls.get(NODES, "", each.node)
        except RequestFailed as error:
            if isinstance(error, ApiError) and is_not_found(error):
                return
            raise _Failed(f"failed fetching node from API server: {error}") from None
        if each.volume in ((node.tree.get("status") or {}).get("volumesInUse") or ()):
            raise _Failed("volume is still in use by node, according to Node status")

    def _delete_attachment(self, each: Attached) -> Reconcile[None]:
        spec = each.spec
        driver, handle = driver_and_handle(each.volume)
        name = attachment_name(handle, driver, each.node)
        try:
            yield from calls.delete(VOLUME_ATTACHMENTS, "", name)
        except RequestFailed as error:
            if isinstance(error, ApiError) and is_not_found(error):
                return
            raise _Failed(f"kubernetes.io/csi: {error}") from None

        def is_gone() -> bool:
            found = self._attachments.get(name)
            if found is None:
                return True
            error = (found.tree.get("status") or {}).get("detachError")
            if error:
                raise _Failed(error.get("message", ""))
            return False

        yield from self._wait(is_gone, spec or Spec(name, driver, handle, shared=True), "detach")

    def _wait(self, done: Callable[[], bool], spec: Spec, what: str) -> Reconcile[None]:
        """Look into the cache until the attacher has done it, less and less often."""
        waited, pause = 0, FIRST_LOOK_NS
        while waited < ANSWER_NS:
            step = min(pause, ANSWER_NS - waited)
            yield Sleep(step, "attachdetach.wait")
            if step == pause and done():
                return
            waited += step
            pause = min(pause * 105 // 100, LARGEST_LOOK_NS)
        raise _Failed(
            f"timed out waiting for external-attacher of {spec.driver} CSI driver to {what} "
            f"volume {spec.handle}"
        )

    def _verify(self) -> Reconcile[None]:
        """Mark volumes without a matching VolumeAttachment as uncertain."""
        yield Point("attachdetach.verify")
        for each in self.actual.attached():
            if not each.confirmed or self._operations.pending(
                each.volume, each.node, shared=each.shared
            ):
                continue
            driver, handle = driver_and_handle(each.volume)
            found = self._attachments.get(attachment_name(handle, driver, each.node))
            if found is None or not (found.tree.get("status") or {}).get("attached"):
                self.actual.mark_uncertain(each.volume, each.spec, each.node)
                self._look()


def _condition(node: Node) -> str:
    for each in (node.tree.get("status") or {}).get("conditions") or ():
        if each["type"] == "Ready":
            status: str = each["status"]
            return status
    return ""


def _taints(node: Node) -> tuple[str, ...]:
    return tuple(each["key"] for each in node.tree["spec"].get("taints") or ())
