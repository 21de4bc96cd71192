"""The pods that the kubelet's sources want, by uid and by full name. Upstream: pkg/kubelet/pod/pod_manager.go.

Mirror pods are kept apart: the API server shows static pods by them, and the kubelet does not run them.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator
from sys import intern

from controlplane.api.pod import Pod
from controlplane.kubelet.pod.static_pods import is_mirror, is_static


class PodManager:
    """The desired pods of one node."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Pod] = {}
        self._by_name: dict[str, str] = {}
        self._mirrors: dict[str, Pod] = {}
        """By full name."""
        self._translations: dict[str, str] = {}
        """Mirror's uid -> static pod's."""

    def put(self, pod: Pod) -> None:
        """Add a pod, or a newer object of it."""
        if is_mirror(pod):
            self._mirrors[pod.key] = pod
            static = self._by_name.get(pod.key)
            if static is not None:
                self._translations[pod.uid] = static
            return
        self._by_uid[pod.uid] = pod
        self._by_name[intern(pod.key)] = pod.uid
        mirror = self._mirrors.get(pod.key)
        if mirror is not None:
            self._translations[mirror.uid] = pod.uid

    def remove(self, pod: Pod) -> None:
        """Forget a pod, and its name even if another pod has it by now."""
        if is_mirror(pod):
            self._mirrors.pop(pod.key, None)
            self._translations.pop(pod.uid, None)
            return
        self._by_uid.pop(pod.uid, None)
        self._by_name.pop(pod.key, None)

    def get(self, uid: str) -> Pod | None:
        """The pod with this uid."""
        return self._by_uid.get(uid)

    def named(self, key: str) -> Pod | None:
        """The pod with this namespace and name."""
        uid = self._by_name.get(key)
        return None if uid is None else self._by_uid.get(uid)

    def mirror(self, pod: Pod) -> Pod | None:
        """The mirror that shows a static pod, whichever version of it; None of other pods."""
        return self._mirrors.get(pod.key)

    def orphaned_mirrors(self) -> list[Pod]:
        """Mirrors of static pods that are not wanted any more."""
        return [mirror for key, mirror in self._mirrors.items() if self.named(key) is None]

    def awaits_mirror(self, uid: str) -> bool:
        """Return whether nothing at the API server stands for a static pod."""
        return self.has_static(uid) and self._by_uid[uid].key not in self._mirrors

    def has_static(self, uid: str) -> bool:
        """Return whether a static pod has this uid."""
        pod = self._by_uid.get(uid)
        return pod is not None and is_static(pod)

    def translated(self, uid: str) -> str:
        """The static pod behind a mirror; other pods stand for themselves."""
        return self._translations.get(uid, uid)

    def all(self) -> list[Pod]:
        """All but mirrors, in the order in which they came."""
        return list(self._by_uid.values())

    def items(self) -> ItemsView[str, Pod]:
        """The same with their uids."""
        return self._by_uid.items()

    def shown(self) -> Iterator[tuple[str, Pod]]:
        """The same with their uids, each as the API server shows it, if it does."""
        for uid, pod in self._by_uid.items():
            if not is_static(pod):
                yield uid, pod
            elif pod.key in self._mirrors:
                yield uid, self._mirrors[pod.key]

    def __contains__(self, uid: str) -> bool:
        return uid in self._by_uid
