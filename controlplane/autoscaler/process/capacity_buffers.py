"""CapacityBuffers: their controller beside the loop, and their pods in the loop.

The controller reconciles all buffers of a namespace at a time, since its ResourceQuotas are shared out among them. Its
PodTemplates are read from the cache, so a quota may not hold before the cache has heard of a new one, as upstream.

Points: those of `controllers.loops.worker` for its queue, and one for every request.
Upstream: `capacitybuffer/controller`, `processors/capacitybuffer`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from controlplane.api.decoding import decode
from controlplane.api.labels import from_label_selector
from controlplane.api.meta import LabelSelector
from controlplane.api.request import MERGE_PATCH
from controlplane.autoscaler.capacity import buffers
from controlplane.autoscaler.capacity.buffers import Unprovisionable, is_fake
from controlplane.autoscaler.capacity.definition import BUFFERS
from controlplane.autoscaler.process.reporting import growth, why_not
from controlplane.client import calls
from controlplane.client.resources import (
    DEPLOYMENTS,
    JOBS,
    POD_TEMPLATES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    Resource,
)
from controlplane.controllers.common.controller import NORMAL, Handlers, Work
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.common.ref_manager import namespace_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controlplane.api.pod import Pod
    from controlplane.api.tree import Tree
    from controlplane.autoscaler.process.settings import Settings
    from controlplane.autoscaler.scaleup import Outcome
    from controlplane.controllers.common.controller import Caches, Host

QUEUE: Final = "capacitybuffer"
_SCALABLE: Final[dict[tuple[str, str], Resource[Any]]] = {
    ("apps", "Deployment"): DEPLOYMENTS,
    ("apps", "ReplicaSet"): REPLICA_SETS,
    ("apps", "StatefulSet"): STATEFUL_SETS,
    ("", "ReplicationController"): REPLICATION_CONTROLLERS,
    ("batch", "Job"): JOBS,
}


class CapacityBuffers:
    """The buffers of a cluster."""

    def __init__(self, host: Host, caches: Caches, settings: Settings) -> None:
        self._host = host
        self._injects = settings.buffer_injection
        self._reconciles = settings.buffer_controller
        self._queue = host.queue(QUEUE)
        self._buffers = caches.of(BUFFERS, namespace=namespace_index)
        self._templates = caches.of(POD_TEMPLATES)
        self._quotas = caches.of(RESOURCE_QUOTAS, namespace=namespace_index)
        self._pods = caches.of(PODS, namespace=namespace_index)
        self._scalable = {known: caches.of(each) for known, each in _SCALABLE.items()}
        self._made: dict[str, Tree] = {}
        """The PodTemplates that were written last, by buffer."""

    def work(self) -> Work:
        """One worker: a namespace at a time."""
        return Work(QUEUE, self.sync, workers=1)

    # -- changes -----------------------------------------------------------------------------------

    def handlers(self, stir: Callable[..., None]) -> dict[Resource[Any], Handlers]:
        """Reconcile the namespace of a changed spec or quota; `stir` is called for buffers."""

        def buffer(*told: Any) -> None:
            stir()
            self._changed(*told)

        def quota(*told: Any) -> None:
            old, new = told[0], told[-1] if not isinstance(told[-1], bool) else told[0]
            if old is new or old.tree.get("status") != new.tree.get("status"):
                self._queue.add(new.namespace)

        made = {
            BUFFERS: Handlers(buffer, buffer, buffer),
            RESOURCE_QUOTAS: Handlers(quota, quota, quota),
            POD_TEMPLATES: self._of_named(lambda spec, name: _named(spec, "podTemplateRef", name)),
        }
        for (group, kind), resource in _SCALABLE.items():
            made[resource] = self._of_named(_refers(group, kind))
        return made

    def _changed(self, *told: Any) -> None:
        objects = [each for each in told if not isinstance(each, bool)]
        generations = {each.metadata.get("generation") for each in objects}
        if len(objects) == 1 or len(generations) > 1:
            self._queue.add(objects[-1].namespace)

    def _of_named(self, refers: Callable[[Tree, str], bool]) -> Handlers:
        def changed(*told: Any) -> None:
            obj = told[0]
            for each in self._buffers.by_index("namespace", obj.namespace):
                if refers(each.tree["spec"], obj.name):
                    self._changed(*told)
                    return

        return Handlers(changed, changed, changed)

    # -- the controller ----------------------------------------------------------------------------

    def sync(self, namespace: str) -> Reconcile[None]:
        """Bring the status of all buffers of a namespace up to date."""
        if not self._reconciles:
            return
        found = [
            each.tree
            for each in self._buffers.by_index("namespace", namespace)
            if each.tree["spec"].get("provisioningStrategy", "") in ("", buffers.STRATEGY)
        ]
        found.sort(
            key=lambda tree: (tree["metadata"]["creationTimestamp"], tree["metadata"]["name"])
        )
        translated: list[Tree] = []
        failed = ""
        for tree in found:
            try:
                translated.append((yield from self._translated(tree)))
            except RequestFailed as error:
                failed = str(error)
                translated.append(buffers.not_ready(tree, None, failed, self._host.now))
        quotas = [each.tree for each in self._quotas.by_index("namespace", namespace)]
        allocated = buffers.allocate(
            translated, quotas, lambda name: self._template(namespace, name), self._host.now
        )
        for before, after in zip(found, allocated, strict=True):
            yield from self._written(before, after)
        if failed:
            raise Retry(failed)

    def _translated(self, tree: Tree) -> Reconcile[Tree]:
        now = self._host.now
        try:
            template, replicas = self._source(tree)
        except Unprovisionable as error:
            return buffers.not_ready(tree, None, str(error), now)
        if template is None:
            return tree
        managed = yield from self._ensured(tree, template)
        try:
            count = buffers.number_of_pods(tree["spec"], managed["template"], replicas)
        except Unprovisionable as error:
            told = f"couldn't get number of replicas for buffer: {error}"
            return buffers.not_ready(tree, managed, told, now)
        return buffers.ready(tree, managed, count, now)

    def _source(self, tree: Tree) -> tuple[Tree | None, int | None]:
        """Return the template of a buffer's pods, and the replicas of what it names. Raises Unprovisionable."""
        spec, namespace = tree["spec"], tree["metadata"]["namespace"]
        if spec.get("podTemplateRef") is not None:
            name = spec["podTemplateRef"]["name"]
            found = self._template(namespace, name)
            if found is None:
                raise Unprovisionable(f'podtemplate "{name}" not found')
            return found["template"], None
        reference = spec.get("scalableRef")
        if reference is None:
            return None, None
        group, kind = reference.get("apiGroup", ""), reference["kind"]
        cache = self._scalable.get((group, kind))
        if cache is None:
            told = f"kind {group}/{kind} is not supported to use pod template"
            raise Unprovisionable(f"failed to resolve scalable object: {told}")
        obj = cache.get(f"{namespace}/{reference['name']}")
        if obj is None:
            told = f'failed to get Deployment: {kind.lower()} "{reference["name"]}" not found'
            raise Unprovisionable(f"failed to resolve scalable object: {told}")
        return self._of_scalable(kind, obj.tree)

    def _of_scalable(self, kind: str, tree: Tree) -> tuple[Tree, int | None]:
        """Return the pod that an object made last, and its replicas by status; without one its template and spec."""
        spec = tree["spec"]
        if kind == "Job":  # has no scale
            return spec["template"], spec.get("parallelism")
        given = spec.get("selector") or {}
        labels = {"matchLabels": given} if kind == "ReplicationController" else given
        selector = from_label_selector(decode(LabelSelector, labels))
        pods = [
            pod.tree
            for pod in self._pods.by_index("namespace", tree["metadata"]["namespace"])
            if selector.matches(pod.metadata.get("labels") or {})
        ]
        if not pods:
            return spec["template"], spec.get("replicas")
        last = max(pods, key=lambda pod: pod["metadata"]["creationTimestamp"])
        meta = {key: last["metadata"].get(key) or {} for key in ("labels", "annotations")}
        bare = {key: value for key, value in last["spec"].items() if key != "nodeName"}
        return {"metadata": meta, "spec": bare}, (tree.get("status") or {}).get("replicas", 0)

    def _ensured(self, buffer: Tree, template: Tree) -> Reconcile[Tree]:
        """Return the PodTemplate of a buffer as the server has it, created or updated if need be."""
        wanted = buffers.managed_template(buffer, template)
        meta = wanted["metadata"]
        known = self._template(meta["namespace"], meta["name"])
        key = buffer["metadata"]["uid"]
        if known is not None and self._made.get(key) == wanted:
            return known
        if known is None:
            written = yield from calls.create(POD_TEMPLATES, meta["namespace"], wanted)
        else:
            changed = {**known, "template": wanted["template"]}
            written = yield from calls.update(POD_TEMPLATES, changed)
        self._made[key] = wanted
        return written.tree

    def _template(self, namespace: str, name: str) -> Tree | None:
        found = self._templates.get(f"{namespace}/{name}")
        return None if found is None else found.tree

    def _written(self, before: Tree, after: Tree) -> Reconcile[None]:
        old, new = before.get("status") or {}, after.get("status") or {}
        changed = {key: value for key, value in new.items() if old.get(key) != value}
        changed.update(dict.fromkeys(key for key in old if key not in new))
        if changed:
            meta = before["metadata"]
            yield from calls.patch(
                BUFFERS,
                meta["namespace"],
                meta["name"],
                {"status": changed},
                subresource="status",
                kind=MERGE_PATCH,
            )

    # -- the loop ----------------------------------------------------------------------------------

    def pods(self) -> Reconcile[list[Pod]]:
        """Return the pods of all buffers that are ready, and note in their status that they are provisioned."""
        found: list[Pod] = []
        for obj in list(self._buffers) if self._injects else ():
            tree = obj.tree
            status = tree.get("status") or {}
            if status.get("provisioningStrategy") == buffers.STRATEGY:
                made, reason, message = self._provisioned(tree, status)
                found += made
                condition = {
                    "type": buffers.PROVISIONING,
                    "status": "True" if made else "False",
                    "reason": reason,
                    "message": message,
                }
                after = buffers.with_condition(tree, condition, self._host.now)
                try:
                    yield from self._written(tree, after)
                except RequestFailed:
                    continue  # the next loop tries again
        return found

    def _provisioned(self, tree: Tree, status: Tree) -> tuple[list[Pod], str, str]:
        reference = status.get("podTemplateRef")
        known = {each["type"]: each["status"] for each in status.get("conditions") or ()}
        refused = known.get(buffers.READY) == "False"
        if reference is None or status.get("replicas") is None or refused:
            return [], "NotReadyForProvisioning", "CapacityBuffer is not ready for provisioning"
        if not status["replicas"]:
            return [], "BufferIsEmpty", "CapacityBuffer has zero replicas"
        template = self._template(tree["metadata"]["namespace"], reference["name"])
        if template is None:
            told = f'failed to get pod template with error: podtemplate "{reference["name"]}" not found'
            return [], "FailedToGetPodTemplate", told
        return buffers.fake_pods(tree, template["template"]), "FakePodsInjected", ""

    def tell(self, outcome: Outcome) -> Outcome:
        """Tell buffers what became of their pods; return the outcome of the others."""
        for obj in self._buffers:
            uid = obj.metadata["uid"]
            if outcome.result not in ("Successful", "Error"):
                remaining = [each for each in outcome.remaining if _is_of(each.pod, uid)]
                if remaining:
                    reasons = ",".join(why_not(outcome, each) for each in remaining)
                    text = f"capacity buffer {len(remaining)} fake pods didn't trigger scale-up: {reasons}"
                    self._host.event(obj.view, NORMAL, "NotTriggerScaleUp", text)
            count = sum(_is_of(pod, uid) for pod in outcome.triggered)
            if count and outcome.infos:
                text = f"capacity buffer {count} fake pods triggered scale-up: {growth(outcome)}"
                self._host.event(obj.view, NORMAL, "TriggeredScaleUp", text)
        return replace(
            outcome,
            triggered=tuple(_real(outcome.triggered)),
            remaining=tuple(each for each in outcome.remaining if not is_fake(each.pod)),
        )


def _real(pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if not is_fake(pod)]


def _is_of(pod: Pod, buffer: str) -> bool:
    owners = pod.metadata.owner_references
    return is_fake(pod) and bool(owners) and owners[-1].uid == buffer


def _named(spec: Tree, field: str, name: str) -> bool:
    return bool((spec.get(field) or {}).get("name") == name)


def _refers(group: str, kind: str) -> Callable[[Tree, str], bool]:
    def refers(spec: Tree, name: str) -> bool:
        reference = spec.get("scalableRef") or {}
        known = reference.get("apiGroup", ""), reference.get("kind")
        return known == (group, kind) and _named(spec, "scalableRef", name)

    return refers
