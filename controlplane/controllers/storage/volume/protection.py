"""Claims, volumes and their classes stay while they are used.

Upstream: pkg/controller/volume/{pvcprotection,pvprotection,vacprotection}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.client import calls
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.resources import (
    CLAIMS,
    PODS,
    VOLUME_ATTRIBUTES_CLASSES,
    VOLUMES,
    Resource,
)
from controlplane.controllers.common.controller import Controller, Handlers, Work, ignore
from controlplane.controllers.common.effects import Reconcile
from controlplane.controllers.common.ref_manager import namespace_index
from controlplane.controllers.storage.volume.binder import claims_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.controllers.common.controller import Caches, Host

CLAIM_FINALIZER: Final = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER: Final = "kubernetes.io/pv-protection"
CLASS_FINALIZER: Final = "kubernetes.io/vac-protection"


def _set_finalizer(
    resource: Resource[Any], obj: Object[Any], finalizer: str, *, on: bool
) -> Reconcile[None]:
    """Write an object with or without a finalizer; what is gone needs nothing."""
    metadata = obj.tree["metadata"]
    others = [each for each in metadata.get("finalizers") or () if each != finalizer]
    finalizers = [*others, finalizer] if on else others
    rest = {key: value for key, value in metadata.items() if key != "finalizers"}
    tree = {
        **obj.tree,
        "metadata": {**rest, "finalizers": finalizers} if finalizers else rest,
    }
    try:
        yield from calls.update(resource, tree)
    except ApiError as error:
        if not is_not_found(error):
            raise


def _leaving(resource: Resource[Any], obj: Object[Any], finalizer: str) -> Reconcile[bool]:
    """Put the finalizer on an object that lacks it; return whether one that has it is being deleted."""
    held = finalizer in obj.view.metadata.finalizers
    if obj.view.metadata.deletion_timestamp is not None:
        return held
    if not held:
        yield from _set_finalizer(resource, obj, finalizer, on=True)
    return False


class ClaimProtectionController(Controller):
    """Lets a claim that is being deleted go once no scheduled pod uses it."""

    name = "persistentvolumeclaim-protection-controller"

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.queue = host.queue("pvcprotection")
        self._claims = caches.of(CLAIMS)
        self._pods = caches.of(PODS, namespace=namespace_index)

    def work(self) -> tuple[Work, ...]:
        """One queue of claims."""
        return (Work("pvcprotection", self.sync, workers=1),)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Claims, and pods that stop using theirs."""

        def pod_gone(obj: Object[Pod], *_: Any) -> None:
            for name in claims_of(obj.view):
                self.queue.add(f"{obj.namespace}/{name}")

        def pod_updated(old: Object[Pod], new: Object[Pod]) -> None:
            finished = new.view.status.phase in {"Succeeded", "Failed"}
            if finished or old.uid != new.uid:
                pod_gone(old)

        return {
            CLAIMS: Handlers(
                lambda obj: self.queue.add(obj.key),
                lambda _old, new: self.queue.add(new.key),
                ignore,
            ),
            PODS: Handlers(ignore, pod_updated, pod_gone),
        }

    def sync(self, key: str) -> Reconcile[None]:
        """Put the finalizer on, or take it off a claim that is being deleted and not used."""
        obj = self._claims.get(key)
        if obj is None:
            return
        if not (yield from _leaving(CLAIMS, obj, CLAIM_FINALIZER)):
            return
        cached = [pod.view for pod in self._pods.by_index("namespace", obj.namespace)]
        if any(_uses(pod, obj.name) for pod in cached):
            return
        live = yield from calls.list_objects(PODS, obj.namespace)
        if not any(_uses(pod.view, obj.name) for pod in live.items):
            yield from _set_finalizer(CLAIMS, obj, CLAIM_FINALIZER, on=False)


def _uses(pod: Pod, claim: str) -> bool:
    """Return whether a pod uses a claim: one that was not scheduled yet would not be let start."""
    return bool(pod.spec.node_name) and claim in claims_of(pod)


class VolumeProtectionController(Controller):
    """Lets a volume that is being deleted go once no claim is bound to it."""

    name = "persistentvolume-protection-controller"

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.queue = host.queue("pvprotection")
        self._volumes = caches.of(VOLUMES)

    def work(self) -> tuple[Work, ...]:
        """One queue of volumes."""
        return (Work("pvprotection", self.sync, workers=1),)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Volumes."""
        return {
            VOLUMES: Handlers(
                lambda obj: self.queue.add(obj.key),
                lambda _old, new: self.queue.add(new.key),
                ignore,
            )
        }

    def sync(self, key: str) -> Reconcile[None]:
        """Put the finalizer on, or take it off a volume that is being deleted and not bound."""
        obj = self._volumes.get(key)
        if obj is None:
            return
        leaving = yield from _leaving(VOLUMES, obj, VOLUME_FINALIZER)
        if leaving and obj.view.status.phase != "Bound":
            yield from _set_finalizer(VOLUMES, obj, VOLUME_FINALIZER, on=False)


def _classes_of_claim(obj: Object[Any]) -> tuple[str, ...]:
    """The names of the attribute classes that a claim asks for, has, or is on its way to."""
    spec, status = obj.tree.get("spec") or {}, obj.tree.get("status") or {}
    names = (
        spec.get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return tuple(dict.fromkeys(name for name in names if name))


def _classes_of_volume(obj: Object[Any]) -> tuple[str, ...]:
    name = (obj.tree.get("spec") or {}).get("volumeAttributesClassName")
    return (name,) if name else ()


class ClassProtectionController(Controller):
    """Lets a VolumeAttributesClass that is being deleted go once no claim and no volume names it."""

    name = "volumeattributesclass-protection-controller"

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.queue = host.queue("vacprotection")
        self._classes = caches.of(VOLUME_ATTRIBUTES_CLASSES)
        self._claims = caches.of(CLAIMS, attributes_class=_classes_of_claim)
        self._volumes = caches.of(VOLUMES, attributes_class=_classes_of_volume)

    def work(self) -> tuple[Work, ...]:
        """One queue of classes."""
        return (Work("vacprotection", self.sync, workers=1),)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Classes, and claims and volumes that no longer name theirs."""

        def seen(obj: Object[Any]) -> None:
            held = CLASS_FINALIZER in obj.view.metadata.finalizers
            if held == (obj.view.metadata.deletion_timestamp is not None):
                self.queue.add(obj.name)

        def users(names: Callable[[Object[Any]], tuple[str, ...]]) -> Handlers:
            def updated(old: Object[Any], new: Object[Any]) -> None:
                left = set(names(new))
                for name in names(old):
                    if name not in left:
                        self.queue.add(name)

            def gone(obj: Object[Any], *_: Any) -> None:
                for name in names(obj):
                    self.queue.add(name)

            return Handlers(ignore, updated, gone)

        return {
            VOLUME_ATTRIBUTES_CLASSES: Handlers(seen, lambda _old, new: seen(new), ignore),
            CLAIMS: users(_classes_of_claim),
            VOLUMES: users(_classes_of_volume),
        }

    def sync(self, key: str) -> Reconcile[None]:
        """Put the finalizer on, or take it off a class that is being deleted and that nothing names."""
        obj = self._classes.get(key)
        if obj is None:
            return
        if not (yield from _leaving(VOLUME_ATTRIBUTES_CLASSES, obj, CLASS_FINALIZER)):
            return
        if self._volumes.by_index("attributes_class", obj.name):
            return
        if not self._claims.by_index("attributes_class", obj.name):
            yield from _set_finalizer(VOLUME_ATTRIBUTES_CLASSES, obj, CLASS_FINALIZER, on=False)
