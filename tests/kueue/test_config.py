"""Kueue's configuration file."""

from __future__ import annotations

import pytest

from controlplane.api.times import SECOND
from controlplane.errors import UsageError
from controlplane.kueue.config import API_VERSION, ConfigurationError, load, settings_of


def settings(**fields):
    return settings_of({"apiVersion": API_VERSION, "kind": "Configuration", **fields})


def test_defaults():
    found = load(None)
    assert found.frameworks == ("batch/job",)
    assert found.strategies is None
    assert not found.metrics.resources
    assert not found.namespaces.matches({"kubernetes.io/metadata.name": "kube-system"})
    assert found.namespaces.matches({"kubernetes.io/metadata.name": "default"})


def test_fields_with_a_meaning():
    found = settings(
        fairSharing={"preemptionStrategies": ["LessThanInitialShare"]},
        integrations={"frameworks": ["statefulset"]},
        waitForPodsReady={"timeout": "90s", "blockAdmission": True},
        objectRetentionPolicies={"workloads": {"afterFinished": "1h"}},
        metrics={"enableClusterQueueResources": True, "localQueueMetrics": {"enable": False}},
        manageJobsWithoutQueueName=True,
    )
    assert found.strategies == ("LessThanInitialShare",)
    assert found.frameworks == ("statefulset", "pod")
    assert found.implied_pods
    assert (found.pods_ready.timeout, found.pods_ready.block_admission) == (90 * SECOND, True)
    assert found.retention == 3600 * SECOND
    assert (found.metrics.resources, found.metrics.local_queues) == (True, False)
    assert found.all_jobs


def test_replicas_are_elected_as_the_file_says():
    assert load(None).election.name == "c1f6bfd2.kueue.x-k8s.io"
    given = {"leaderElect": True, "leaseDuration": "30s", "resourceNamespace": "batch"}
    found = settings(leaderElection=given).election
    assert (found.lease_ns, found.renew_deadline_ns) == (30 * SECOND, 10 * SECOND)
    assert (found.namespace, found.release_on_cancel) == ("batch", True)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"multiKueue": {}}, "multiKueue: has no meaning here"),
        ({"integrations": {"frameworks": ["ray.io/rayjob"]}}, "integrations.frameworks[0]"),
        ({"integrations": {"frameworks": ["pod", "pod"]}}, "twice"),
        ({"featureGates": {"Unknown": True}}, "featureGates"),
        ({"waitForPodsReady": {"timeout": "soon"}}, "waitForPodsReady.timeout"),
        ({"fairSharing": {"preemptionStrategies": ["Always"]}}, "fairSharing.preemptionStrategies"),
        ({"leaderElection": {"leaderElect": False}}, "leaderElection.leaderElect"),
        ({"leaderElection": {"leaseDuration": "5s"}}, "leaderElection: lease_ns must be greater"),
        ({"kind": "Other"}, "apiVersion, kind"),
    ],
)
def test_others_are_refused_by_name(fields, text):
    with pytest.raises(ConfigurationError, match=text.replace("[", r"\[").replace(".", r"\.")):
        settings(**fields)


def test_the_file_is_named(tmp_path):
    path = tmp_path / "kueue.yaml"
    path.write_text("{")
    with pytest.raises(UsageError, match=r"kueue\.yaml: no YAML"):
        load(path)
    with pytest.raises(UsageError, match=r"missing\.yaml"):
        load(tmp_path / "missing.yaml")
