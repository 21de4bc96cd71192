from __future__ import annotations

from controlplane.api.times import SECOND
from controlplane.controllers.workloads.daemon.failures import FailedPodsBackoff
from controlplane.controllers.workloads.daemon.placement import with_tolerations

NOW = 10**18


def test_tolerations_are_added_once_and_an_equal_one_loses_its_seconds():
    key = "node.kubernetes.io/not-ready"
    given = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    spec = with_tolerations({"tolerations": [given]})
    assert spec["tolerations"][0] == {"key": key, "operator": "Exists", "effect": "NoExecute"}
    assert len(spec["tolerations"]) == 6
    assert with_tolerations(spec) == spec
    assert len(with_tolerations({"hostNetwork": True})["tolerations"]) == 7


def test_a_failed_pod_waits_twice_as_long_each_time_until_it_has_been_quiet():
    found = FailedPodsBackoff()
    assert found.waiting("a", NOW) == 0
    for seconds in (1, 2, 4, 8):
        found.failed("a", NOW)
        assert found.waiting("a", NOW) == seconds * SECOND
    assert found.waiting("b", NOW) == 0
    assert found.waiting("a", NOW + 8 * SECOND) == 0
    for _ in range(20):
        found.failed("a", NOW)
    assert found.waiting("a", NOW) == 900 * SECOND
    later = NOW + 1801 * SECOND
    found.failed("a", later)
    assert found.waiting("a", later) == SECOND
