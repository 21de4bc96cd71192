"""Fair sharing of admission in a whole cluster: the local queue with less past usage goes first."""

from __future__ import annotations

from controlplane.api.quantity import parse
from tests.kueue.process.test_examples import conditions, executed


def test_the_queue_that_used_less_goes_first():
    cluster = executed("past-usage.yaml", "past-usage-config.yaml")
    at = {
        name: each["Admitted"]["lastTransitionTime"] for name, each in conditions(cluster).items()
    }
    assert sorted(at, key=at.__getitem__)[:2] == ["red-0", "blue-0"]
    consumed = {
        obj.metadata["name"]: obj.tree["status"]["fairSharing"]["admissionFairSharingStatus"]
        for obj in cluster.objects("/registry/kueue.x-k8s.io/localqueues/")
    }
    usage = {
        name: parse(each["consumedResources"]["cpu"]).approximate_float()
        for name, each in consumed.items()
    }
    assert usage["red"] > usage["blue"] > 0
