"""What the scheduler keeps of a pod over its newer objects."""

from __future__ import annotations

import gc
import sys
from typing import Any

from controlplane.api.object import Object
from controlplane.scheduler.state.pod_info import PodInfo
from controlplane.scheduler.state.pod_kinds import NEW, PodKind

TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
AFFINITY = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}


def pod(version: int, affinity: dict[str, Any] | None = None) -> Object[Any]:
    spec: dict[str, Any] = {"containers": [{"name": "main"}]}
    if affinity is not None:
        spec["affinity"] = affinity
    meta = {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": str(version)}
    return Object({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


HELD_HERE = 2
"""References to an object that only the caller of `getrefcount` has: its own, and the argument."""


def test_the_first_object_of_a_pod_without_affinity_is_not_kept():
    for newer in (PodInfo.with_pod, PodInfo.update):
        first = pod(1)
        info, metadata = PodInfo(first.view), first.view.metadata
        other = newer(info, pod(2).view) or info
        del first, info
        gc.collect()
        assert sys.getrefcount(metadata) == HELD_HERE
        assert not other.has_affinity
        assert other.terms == PodInfo(pod(3).view).terms


def test_terms_stay_those_of_the_object_that_they_were_made_for():
    info = PodInfo(pod(1, AFFINITY).view)
    info.update(pod(2).view)
    assert info.has_required_anti_affinity
    assert info.terms.required_anti_affinity
    info = PodInfo(pod(1).view)
    info.update(pod(2, AFFINITY).view)
    assert not info.has_affinity


def test_what_selectors_see_is_seen_anew_when_it_changed():
    for changed in ({"labels": {"a": "b"}}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, {}):
        newer = pod(2)
        newer.tree["metadata"].update(changed)
        info = PodInfo(pod(1).view)
        kind = info.kind = PodKind("n", {})
        assert info.with_pod(newer.view).kind is (NEW if changed else kind)
        info.update(newer.view)
        assert info.kind is (NEW if changed else kind)
