"""The pods that the kubelet's sources want, by uid and by full name. Upstream: pkg/kubelet/pod/pod_manager.go."""

from __future__ import annotations

from controlplane.api.pod import Pod


class PodManager:
    """The desired pods of one node."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Pod] = {}
        self._by_name: dict[str, str] = {}

    def put(self, pod: Pod) -> None:
        """Add a pod, or a newer object of it."""
        self._by_uid[pod.uid] = pod
        self._by_name[pod.key] = pod.uid

    def remove(self, pod: Pod) -> None:
        """Forget a pod; and its name, whoever has it by now."""
        self._by_uid.pop(pod.uid, None)
        self._by_name.pop(pod.key, None)

    def get(self, uid: str) -> Pod | None:
        """The pod with this uid."""
        return self._by_uid.get(uid)

    def named(self, key: str) -> Pod | None:
        """The pod with this namespace and name."""
        uid = self._by_name.get(key)
        return None if uid is None else self._by_uid.get(uid)

    def all(self) -> list[Pod]:
        """All of them, in the order in which they came."""
        return list(self._by_uid.values())

    def __contains__(self, uid: str) -> bool:
        return uid in self._by_uid
