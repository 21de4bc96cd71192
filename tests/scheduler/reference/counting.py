"""How many pods a selector matches, counted one by one."""

from __future__ import annotations


def count_matching(pods, selector, namespace):
    """Pods of the namespace that match and do not terminate; an empty selector counts none."""
    return sum(
        info.pod.metadata.namespace == namespace
        and info.pod.metadata.deletion_timestamp is None
        and not selector.empty()
        and selector.matches(info.pod.metadata.labels)
        for info in pods
    )
