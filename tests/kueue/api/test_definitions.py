"""Kueue's kinds on the project's own API server."""

from __future__ import annotations

import pytest

from actors import Context
from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import Client
from controlplane.kueue.api.definitions import definitions
from controlplane.kueue.api.installation import installation
from controlplane.kueue.api.webhook_configurations import webhook_configurations
from controlplane.kueue.config import load
from controlplane.kueue.process.kinds import KINDS
from tests.kueue.objects import cluster_queue, workload
from tests.test_cluster import cluster_with, run

VERSION = {"apiVersion": "kueue.x-k8s.io/v1beta2"}


def created(*objects):
    """The server's answers to objects: the stored tree, or the text of the refusal."""
    answers = []

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        for kind, tree in objects:
            try:
                made = await client.create(KINDS[kind], {**VERSION, "kind": kind, **tree})
                answers.append(made.tree)
            except ApiError as error:
                answers.append(str(error))

    crds = [
        each for each in installation(load(None)) if each[1]["kind"] == "CustomResourceDefinition"
    ]
    run(cluster_with(user, nodes=0, installed=crds, controllers=False))
    return answers


def test_every_kind_has_a_definition_with_status_and_columns():
    found = {each["spec"]["names"]["kind"]: each["spec"] for each in definitions()}
    assert {
        "Workload",
        "ClusterQueue",
        "LocalQueue",
        "Cohort",
        "ResourceFlavor",
        "Topology",
    } <= set(found)
    columns = found["Workload"]["versions"][0]["additionalPrinterColumns"]
    assert [each["name"] for each in columns] == [
        "Queue", "Reserved in", "Admitted", "Finished", "Age",
    ]  # fmt: skip


def test_a_world_without_the_webhook_server_serves_no_version_that_it_would_convert():
    kinds = {"ClusterQueue", "LocalQueue", "Cohort", "Workload"}
    for converted in (True, False):
        for each in definitions(converted=converted):
            spec = each["spec"]
            two = len(spec["versions"]) == 2
            if spec["names"]["kind"] in kinds:
                assert two is ("conversion" in spec) is converted


def test_a_provisioning_configuration_has_retries_and_is_validated():
    kind, named = "ProvisioningRequestConfig", {"metadata": {"name": "config"}}
    wanted = {"provisioningClassName": "class", "retryStrategy": {"backoffLimitCount": 1}}
    made, partly, policy, missing = created(
        (kind, {"metadata": {"name": "plain"}, "spec": {"provisioningClassName": "class"}}),
        (kind, {**named, "spec": wanted}),
        (kind, {**named, "spec": {**wanted, "podSetMergePolicy": "All"}}),
        (kind, {**named, "spec": {}}),
    )
    retries = {"backoffLimitCount": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800}
    assert made["spec"]["retryStrategy"] == retries
    assert partly["spec"]["retryStrategy"] == {**retries, "backoffLimitCount": 1}
    assert 'spec.podSetMergePolicy: Unsupported value: "All"' in policy
    assert "spec.provisioningClassName: Required value" in missing


def test_defaults_are_filled_in():
    (queue,) = created(("ClusterQueue", cluster_queue("queue", {"default/cpu": 4})))
    assert queue["spec"]["queueingStrategy"] == "BestEffortFIFO"
    assert queue["spec"]["preemption"]["withinClusterQueue"] == "Never"
    assert queue["spec"]["stopPolicy"] == "None"


def test_rules_of_the_schema():
    many = workload(
        "two",
        pod_sets=[
            {"name": "a", "count": 1, "minCount": 2, "template": {"spec": {"containers": []}}}
        ],
    )
    wrong_queue = cluster_queue("queue", {"default/cpu": 4}, resources=("cpu", "memory"))
    first, second = created(("Workload", many), ("ClusterQueue", wrong_queue))
    assert "minCount should be positive and less or equal to count" in first
    assert "resources" in second


@pytest.mark.parametrize("frameworks", [("batch/job",), ("pod", "deployment")])
def test_only_enabled_frameworks_are_asked_about(frameworks):
    names = {
        each["name"] for tree in webhook_configurations(frameworks) for each in tree["webhooks"]
    }
    assert ("vjob.kb.io" in names) == ("batch/job" in frameworks)
    assert ("mpod.kb.io" in names) == ("pod" in frameworks)
    assert "vclusterqueue.kb.io" in names
