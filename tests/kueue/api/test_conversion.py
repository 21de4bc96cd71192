"""Kueue's objects in v1beta1 and v1beta2."""

from __future__ import annotations

import pytest

from actors import Context
from controlplane.api.times import SECOND
from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import Client
from controlplane.client.resources import Resource
from controlplane.kueue.api.conversion import converted, review
from controlplane.kueue.gates import Gates
from controlplane.kueue.names import GROUP
from controlplane.kueue.process.kinds import KINDS
from tests.kueue.process.test_controller import kueue_cluster
from tests.kueue.surroundings import template
from tests.test_cluster import run

GATES = Gates()
NEW, OLD = "v1beta2", "v1beta1"
LEVELS = ["rack", "kubernetes.io/hostname"]


def up(kind: str, **parts):
    tree = {"apiVersion": f"{GROUP}/{OLD}", "kind": kind, "metadata": {"name": "a"}, **parts}
    return converted(tree, GROUP, NEW, GATES)


def down(kind: str, **parts):
    tree = {"apiVersion": f"{GROUP}/{NEW}", "kind": kind, "metadata": {"name": "a"}, **parts}
    return converted(tree, GROUP, OLD, GATES)


def test_a_cluster_queue_gets_the_names_and_words_of_the_new_version():
    spec = {
        "cohort": "team",
        "admissionChecks": ["first", "second"],
        "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"},
        "stopPolicy": "Hold",
    }
    found = up(
        "ClusterQueue", spec=spec, status={"pendingWorkloadsStatus": {}, "pendingWorkloads": 2}
    )
    assert found["apiVersion"] == "kueue.x-k8s.io/v1beta2"
    assert found["spec"] == {
        "cohortName": "team",
        "admissionChecksStrategy": {"admissionChecks": [{"name": "first"}, {"name": "second"}]},
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"},
        "stopPolicy": "Hold",
    }
    assert found["status"] == {"pendingWorkloads": 2}


def test_what_only_the_new_version_has_is_lost_in_the_old_one():
    spec = {"cohortName": "team", "concurrentAdmissionPolicy": {"migration": {}}}
    assert down("ClusterQueue", spec=spec)["spec"] == {"cohort": "team"}
    gates = [{"name": "a"}]
    found = down(
        "Workload",
        spec={"podSets": [], "preemptionGates": gates},
        status={"preemptionGates": gates},
    )
    assert (found["spec"], found["status"]) == ({"podSets": []}, {})


def test_a_local_queue_has_one_letter_more():
    usage = [{"name": "default"}]
    assert up("LocalQueue", status={"flavorUsage": usage, "flavors": usage})["status"] == {
        "flavorsUsage": usage
    }
    assert down("LocalQueue", status={"flavorsUsage": usage})["status"] == {"flavorUsage": usage}


def test_a_share_of_past_usage_is_that_of_local_queues_alone():
    share = {"weightedShare": 3, "admissionFairSharingStatus": {"consumedResources": {}}}
    assert up("Cohort", status={"fairSharing": share})["status"]["fairSharing"] == {
        "weightedShare": 3
    }
    assert up("LocalQueue", status={"fairSharing": share})["status"]["fairSharing"] == share


@pytest.mark.parametrize(
    ("source", "reference"),
    [
        ("kueue.x-k8s.io/workloadpriorityclass", ("kueue.x-k8s.io", "WorkloadPriorityClass")),
        ("scheduling.k8s.io/priorityclass", ("scheduling.k8s.io", "PriorityClass")),
    ],
)
def test_a_priority_class_is_a_reference_in_the_new_version(source, reference):
    old = {"podSets": [], "priorityClassName": "high", "priorityClassSource": source}
    found = up("Workload", spec=old)["spec"]
    assert found["priorityClassRef"] == dict(zip(("group", "kind", "name"), (*reference, "high")))
    assert down("Workload", spec=found)["spec"] == old


def test_a_class_without_a_source_is_dropped():
    assert up("Workload", spec={"priorityClassName": "high"})["spec"] == {}


def test_domains_are_written_one_by_one_in_the_old_version():
    domains = [{"values": ["a", f"node-{number}"], "count": 2} for number in (1, 2, 3)]
    old = {
        "admission": {
            "podSetAssignments": [
                {"name": "main", "topologyAssignment": {"levels": LEVELS, "domains": domains}}
            ]
        },
        "accumulatedPastExexcutionTimeSeconds": 7,
    }
    new = up("Workload", status=old)["status"]
    (assignment,) = new["admission"]["podSetAssignments"]
    (piece,) = assignment["topologyAssignment"]["slices"]
    assert piece["valuesPerLevel"][1]["individual"] == {"prefix": "node-", "roots": ["1", "2", "3"]}
    assert new["accumulatedPastExecutionTimeSeconds"] == 7
    assert down("Workload", status=new)["status"] == old


def test_constraints_of_layers_have_no_place_in_the_old_version():
    request = {"required": "rack", "podsetSliceRequiredTopologyConstraints": []}
    found = down("Workload", spec={"podSets": [{"name": "main", "topologyRequest": request}]})
    assert found["spec"]["podSets"][0]["topologyRequest"] == {"required": "rack"}


def test_a_review_with_an_unknown_kind_fails_as_a_whole():
    known = {"apiVersion": f"{GROUP}/{OLD}", "kind": "Cohort", "metadata": {"name": "a"}}
    asked = {"desiredAPIVersion": f"{GROUP}/{NEW}", "objects": [known]}
    assert review(asked, GATES)["convertedObjects"] == [{**known, "apiVersion": f"{GROUP}/{NEW}"}]
    found = review({**asked, "objects": [known, {**known, "kind": "Other"}]}, GATES)
    assert found["result"]["status"] == "Failure"
    assert "Kind=Other cannot be converted" in found["result"]["message"]


# -- through the server ----------------------------------------------------------------------------


def old(plural: str) -> Resource:
    return Resource(GROUP, OLD, plural)


def test_both_versions_show_the_same_objects_and_jobs_run_with_either():
    seen = {}

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await ctx.sleep(SECOND)
        flavors = [
            {
                "name": "default",
                "resources": [{"name": "cpu", "nominalQuota": "4", "borrowingLimit": "1"}],
            }
        ]
        spec = {
            "cohort": "team",
            "namespaceSelector": {},
            "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
        }
        named = {"apiVersion": f"{GROUP}/{OLD}"}
        for plural, kind, more in (
            ("resourceflavors", "ResourceFlavor", {"metadata": {"name": "default"}}),
            ("clusterqueues", "ClusterQueue", {"metadata": {"name": "team"}, "spec": spec}),
            (
                "localqueues",
                "LocalQueue",
                {
                    "metadata": {"name": "team", "namespace": "default"},
                    "spec": {"clusterQueue": "team"},
                },
            ),
        ):
            await client.create(old(plural), {**named, "kind": kind, **more})
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": "one",
                "namespace": "default",
                "labels": {"kueue.x-k8s.io/queue-name": "team"},
            },
            "spec": {"template": {"spec": {**template()["spec"], "restartPolicy": "Never"}}},
        }
        await client.create(Resource("batch", "v1", "jobs"), job)
        await ctx.sleep(30 * SECOND)
        seen["new"] = (await client.get(KINDS["ClusterQueue"], "", "team")).tree
        seen["old"] = (await client.get(old("clusterqueues"), "", "team")).tree
        (seen["workload"],) = [
            each.tree for each in (await client.list(old("workloads"), "default")).items
        ]
        wrong = {**seen["old"], "metadata": {"name": "alone"}, "spec": {**spec, "cohort": ""}}
        del wrong["spec"]["cohort"]
        try:
            await client.create(old("clusterqueues"), wrong)
        except ApiError as error:
            seen["refused"] = str(error)

    run(kueue_cluster(user))
    assert seen["new"]["spec"]["cohortName"] == seen["old"]["spec"]["cohort"] == "team"
    assert seen["new"]["spec"]["flavorFungibility"]["whenCanBorrow"] == "MayStopSearch"
    assert seen["old"]["metadata"]["uid"] == seen["new"]["metadata"]["uid"]
    assert seen["workload"]["apiVersion"] == "kueue.x-k8s.io/v1beta1"
    conditions = {each["type"]: each["status"] for each in seen["workload"]["status"]["conditions"]}
    assert conditions["Finished"] == "True"
    assert "borrowingLimit must be nil when cohort is empty" in seen["refused"]
