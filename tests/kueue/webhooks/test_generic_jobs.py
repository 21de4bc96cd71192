"""A user's kind of job under Kueue's webhooks."""

from __future__ import annotations

from attrs import evolve

from controlplane.kueue.api.webhook_configurations import webhook_configurations
from controlplane.kueue.webhooks.generic_jobs import default_generic, validate_generic
from controlplane.kueue.webhooks.review import mutate, validate
from tests.kueue.jobs.test_generic import JobSet, jobset, replicated, surroundings
from tests.kueue.surroundings import named, store

QUEUE = "kueue.x-k8s.io/queue-name"


def test_a_job_with_a_queue_is_suspended_when_it_is_created():
    made = default_generic(JobSet, jobset(suspend=False), surroundings(store()))
    assert made["spec"]["suspend"] is True


def test_a_job_without_a_queue_is_left_alone_unless_its_namespace_has_a_default_one():
    plain = {**jobset(suspend=False), "metadata": named("train", "")}
    there = surroundings(store())
    assert default_generic(JobSet, plain, there) == plain
    made = default_generic(JobSet, plain, evolve(there, default_queue_exists=lambda _: True))
    assert made["metadata"]["labels"] == {QUEUE: "default"}
    assert made["spec"]["suspend"] is True


def test_the_queue_of_a_running_job_stays():
    moved = {**jobset(suspend=False), "metadata": named("train", "other")}
    there = surroundings(store())
    (error,) = validate_generic(JobSet, moved, jobset(suspend=False), there)
    assert str(error).startswith(f"metadata.labels[{QUEUE}]: Invalid value")
    assert validate_generic(JobSet, {**moved, "spec": jobset()["spec"]}, jobset(), there) == []


def test_a_class_has_rules_of_its_own():
    more = jobset(suspend=False, replicatedJobs=[replicated("driver", 2, 1)])
    one = jobset(suspend=False, replicatedJobs=[replicated("driver", 1, 1)])
    (error,) = validate_generic(JobSet, more, one, surroundings(store()))
    assert "replicas cannot change" in str(error)
    assert validate_generic(JobSet, more, None, surroundings(store())) == []


def test_reviews_of_its_kind_are_answered_by_the_class():
    request = {"kind": {"kind": "JobSet"}, "object": jobset(suspend=False), "namespace": "default"}
    there, custom = surroundings(store()), {"JobSet": JobSet}
    assert "patch" in mutate(request, there, custom)
    assert validate(request, there, custom) == {"allowed": True}


def test_the_server_asks_about_the_kind_when_it_is_registered():
    for plain, more in zip(
        webhook_configurations(()), webhook_configurations((), [JobSet]), strict=True
    ):
        (hook,) = [each for each in more["webhooks"] if each not in plain["webhooks"]]
        assert hook["rules"][0]["apiGroups"] == ["jobset.x-k8s.io"]
        assert hook["rules"][0]["resources"] == ["jobsets"]
