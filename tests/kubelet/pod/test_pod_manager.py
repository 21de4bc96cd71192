"""The kubelet's desired pods, by uid and by name."""

from __future__ import annotations

from controlplane.kubelet.pod.pod_manager import PodManager
from tests.kubelet.pod.test_pod_config import pod


def test_pods_are_found_by_uid_and_by_name() -> None:
    pods = PodManager()
    pods.put(pod("a", "1").view)
    newer = pod("a", "1", phase="Running").view
    pods.put(newer)
    assert pods.get("1") is newer
    assert pods.named("default/a") is newer
    assert "1" in pods
    assert pods.all() == [newer]
    pods.remove(newer)
    assert (pods.get("1"), pods.named("default/a"), pods.all()) == (None, None, [])


def test_removing_a_namesake_hides_who_came_after_it() -> None:
    """Upstream forgets the full name without looking whose it is by now."""
    pods = PodManager()
    old, new = pod("a", "1").view, pod("a", "2").view
    pods.put(old)
    pods.put(new)
    pods.remove(old)
    assert pods.get("2") is new
    assert pods.named("default/a") is None
