"""Invariants of claims and volumes: each breaks when a volume and its claim disagree, and holds otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.api.object import Object
from controlplane.scenarios.invariants.volumes import (
    claims_in_use_stay,
    one_claim_a_volume,
    volumes_follow_their_claims,
    volumes_keep_their_claims,
)
from tests.scenarios.invariants.stored import StoredRun, made, said

NOW = "2026-01-01T00:00:00Z"


def claim(uid: str, phase: str = "Bound", **metadata: Any) -> Object:
    spec = {"volumeName": "disk"}
    return made("PersistentVolumeClaim", "data", spec, {"phase": phase}, uid=uid, **metadata)


def disk(owner: str | None, phase: str = "Bound") -> Object:
    spec = {} if owner is None else {"claimRef": {"name": "data", "uid": owner}}
    return made("PersistentVolume", "disk", spec, {"phase": phase})


def user(phase: str = "Running", claim_name: str = "data", node: str = "node-1") -> Object:
    volumes = [{"persistentVolumeClaim": {"claimName": claim_name}}]
    return made("Pod", "web", {"nodeName": node, "volumes": volumes}, {"phase": phase})


@pytest.mark.parametrize(
    ("owner", "phase", "told"),
    [
        ("old", "Bound", None),
        ("old", "Released", "volume disk is Released, and its claim exists"),
        ("gone", "Released", None),
        ("gone", "Failed", None),
        ("gone", "Bound", "volume disk is Bound, and its claim is gone"),
        (None, "Available", None),
    ],
)
def test_a_volume_whose_phase_is_not_that_of_its_claim_is_found(owner, phase, told) -> None:
    assert said(volumes_follow_their_claims(), claim("old"), disk(owner, phase)) == told


def test_a_claim_bound_to_the_volume_of_another_is_found() -> None:
    law = one_claim_a_volume("apiserver")
    assert said(law, claim("new"), disk("new")) is None
    assert said(law, claim("new", "Pending"), disk("old")) is None
    assert said(law, claim("new", "Lost"), disk("old")) is None
    assert said(law, claim("new"), disk("old")) == (
        "claim default/data (new) is bound to disk, which belongs to data (old)"
    )


def test_a_claim_that_was_bound_rightly_may_lose_its_volume_later() -> None:
    law, run = one_claim_a_volume("apiserver"), StoredRun()
    assert said(law, claim("new"), disk("new"), run=run) is None
    assert said(law, claim("new"), disk("other"), run=run) is None


@pytest.mark.parametrize("phase", ["Running", "Pending"])
def test_a_claim_that_goes_under_a_pod_that_has_not_ended_is_found(phase: str) -> None:
    law, run = claims_in_use_stay("apiserver"), StoredRun()
    going = claim("old", deletionTimestamp=NOW)
    assert said(law, going, user(phase), run=run) is None
    assert said(law, user(), run=run) == "a claim of default/web is gone, and the pod has not ended"
    assert said(law, user(), run=run) is None


def test_a_claim_may_go_once_its_pods_have_ended_or_if_they_had_no_node() -> None:
    for before, after in ((user(), user("Succeeded")), (user("Pending", node=""), user())):
        law, run = claims_in_use_stay("apiserver"), StoredRun()
        assert said(law, claim("old", deletionTimestamp=NOW), before, run=run) is None
        assert said(law, after, run=run) is None
    law, run = claims_in_use_stay("apiserver"), StoredRun()
    assert said(law, claim("old", deletionTimestamp=NOW), user("Running", "other"), run=run) is None
    assert said(law, user("Running", "other"), run=run) is None


def test_a_volume_that_changes_its_claim_without_being_given_free_is_found() -> None:
    law, run = volumes_keep_their_claims("apiserver"), StoredRun()
    assert said(law, disk(None), run=run) is None
    assert said(law, disk("old"), run=run) is None
    assert said(law, disk("new"), run=run) == "volume disk belonged to claim old, and now to new"
    assert said(law, disk(None), run=run) is None
    assert said(law, disk("old"), run=run) is None
