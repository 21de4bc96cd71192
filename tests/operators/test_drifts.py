"""Drifts that a run suggests, and the verdicts about runs with them."""

from __future__ import annotations

import pytest
from attrs import evolve

from controlplane.operators.description import read
from controlplane.operators.drifts import Change, Drift, drifts_of, verdict_of
from controlplane.operators.loops.session import Conditions, performed
from controlplane.operators.masks import reference_of
from controlplane.operators.observation import Record
from controlplane.scenarios.plans.language import ANSWER
from controlplane.scenarios.plans.outside import Seen
from controlplane.scenarios.plans.passing import Passing
from tests.operators.test_session import EXAMPLES

OWNED = {
    "metadata": {
        "name": "m",
        "uid": "m",
        "labels": {"a": "b"},
        "ownerReferences": [{"kind": "Thing", "uid": "t"}],
    },
    "data": {"k": "v"},
    "spec": {"paused": False},
}
DELETION = Drift("ResourceDeletion", (Change("delete", "configmaps", "default", "m"),))


def record(objects=None, **more):
    what = Passing(ANSWER, "op", "apiserver", "create", "configmaps", "default/m", OWNED, 201)
    return Record((), (), (), objects or {}, (), (Seen(what, 1, 0, True),), **more)


def test_what_an_operator_made_is_deleted_changed_and_cut_off():
    found = drifts_of(
        record({("configmaps", "default/m"): OWNED, ("configmaps", "default/x"): OWNED})
    )
    told = {each.kind: [str(change) for change in each.changes] for each in found}
    assert told["ResourceDeletion"] == ["delete configmaps default/m"]
    assert set(told) >= {
        "ConfigDrift",
        "CRDMutation",
        "LabelStomping",
        "OwnerRefOrphan",
        "FinalizerBlock",
    }
    assert all("default/x" not in change for changes in told.values() for change in changes)
    by_kind = {each.kind: each for each in found}
    assert by_kind["ConfigDrift"].changes[0].tree == {"data": {"k": "drift"}}
    assert by_kind["CRDMutation"].changes[0].tree == {"spec": {"paused": True}}
    assert by_kind["FinalizerBlock"].back
    assert by_kind["QuotaExhaustion"].back[0].action == "delete"


def test_rights_and_replicas_are_taken_away_and_given_back():
    pod = {"metadata": {"name": "p", "uid": "p"}, "spec": {"serviceAccountName": "op"}}
    deployment = {"metadata": {"name": "d", "uid": "d"}, "spec": {"replicas": 2}}
    subjects = [{"kind": "ServiceAccount", "namespace": "ops", "name": "op"}]
    binding = {"metadata": {"name": "b", "uid": "b"}, "subjects": subjects}
    objects = {
        ("pods", "ops/p"): pod,
        ("deployments", "ops/d"): deployment,
        ("clusterrolebindings", "b"): binding,
    }
    found = drifts_of(record(objects, family=frozenset("pd"), locks=("ops/lock",)))
    by_kind = {each.kind: each for each in found}
    assert by_kind["DeploymentScaleZero"].back[0].tree == {"spec": {"replicas": 2}}
    assert by_kind["RBACRevoke"].back[0].tree == {"subjects": subjects}
    assert str(by_kind["LeaderElectionDisrupt"].changes[0]) == "delete leases ops/lock"
    assert "PodKill" in by_kind


@pytest.mark.parametrize(
    ("objects", "more", "verdict"),
    [
        ({("configmaps", "default/m"): OWNED}, {}, "resilient"),
        ({("configmaps", "default/m"): {**OWNED, "data": {"k": "drift"}}}, {}, "degraded"),
        ({}, {}, "failed"),
        ({("configmaps", "default/m"): OWNED}, {"settled": False}, "failed"),
        ({}, {"drift_problem": "forbidden"}, "inconclusive"),
    ],
)
def test_verdicts(objects, more, verdict):
    owner = {("things", "default/t"): {"metadata": {"name": "t", "uid": "t"}}}
    calm = [record({("configmaps", "default/m"): OWNED, **owner})] * 2
    found = verdict_of(DELETION, record({**objects, **owner}, **more), reference_of(calm), calm)
    assert found.verdict == verdict


@pytest.mark.slow
def test_an_operator_makes_again_what_is_deleted_but_does_not_look_at_data():
    clean = read(EXAMPLES / "shelves.yaml")
    clean = evolve(clean, workload=clean.workload[:2])
    calm = [performed(clean, Conditions(settle_s=0.2))] * 2
    reference = reference_of(calm)

    def verdict(kind):
        drift = next(each for each in drifts_of(calm[0]) if each.kind == kind)
        found = performed(clean, Conditions(settle_s=0.2, drift=drift))
        return verdict_of(drift, found, reference, calm).verdict

    assert verdict("ResourceDeletion") == "resilient"
    assert verdict("ConfigDrift") == "degraded"
    assert verdict("RBACRevoke") == "resilient"
