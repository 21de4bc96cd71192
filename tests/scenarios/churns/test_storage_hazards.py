"""What is open upstream is found by search, each hazard by the invariant that it breaks."""

from __future__ import annotations

import pytest

from controlplane.scenarios.churns.storage_hazards import PARTS
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search.exploring import Campaign
from controlplane.scenarios.search.loading import from_module

SCENARIO = from_module("controlplane.scenarios.churns.storage_hazards")
BROKEN = {
    "lost-mark": ("contents stay while they are made", "CreateSnapshot for it is under way"),
    "circle": ("what is deleted goes", "VolumeSnapshot default/daily is being deleted, and stays"),
    "early-deletion": ("what is deleted goes", "VolumeGroupSnapshotContent"),
    "lost-answer": ("snapshots get ready", "never became ready"),
    "shared-finalizer": ("nothing is left in the storage", "volume pvc-"),
    "partial-group": ("nothing is left in the storage", "vol-0 is left"),
    "lost-provision": ("nothing is left in the storage", "volume pvc-"),
    "poll": ("calls for groups back off", "more than 30 times"),
}


def test_every_hazard_has_its_breach():
    assert BROKEN.keys() == PARTS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_search_finds_the_hazard(part):
    found = Campaign(plan_of(SCENARIO, part=part)).explore(20).findings
    assert found
    invariant, said = BROKEN[part]
    assert found[0].result.verdict == "violated"
    assert found[0].result.reason.startswith(f"{invariant}: ")
    assert said in found[0].result.reason
