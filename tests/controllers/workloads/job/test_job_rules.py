"""What Jobs decide: indexes, backoff, finalizers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.batch import Job
from controlplane.api.times import SECOND
from controlplane.controllers.workloads.job.backoff import BackoffRecord, remaining
from controlplane.controllers.workloads.job.indexes import Intervals, parse
from controlplane.controllers.workloads.job.pods import new_pod
from controlplane.controllers.workloads.job.status import JobStatusDraft
from controlplane.controllers.workloads.job.tracking import FinalizerExpectations

NOW = 10**18
indexes = st.sets(st.integers(0, 40), max_size=20)


@given(indexes, indexes)
def test_intervals_are_the_union_of_indexes_and_their_text_reads_back(one, other):
    found = Intervals().with_indexes(sorted(one)).with_indexes(sorted(other))
    assert [index for index in range(41) if index in found] == sorted(one | other)
    assert found.total == len(one | other)
    assert str(parse(str(found), 41)) == str(found)


@given(indexes, st.integers(0, 45), st.integers(0, 45))
def test_free_indexes_are_the_first_ones_outside(taken, count, completions):
    found = Intervals().with_indexes(sorted(taken)).free(count, completions)
    assert found == [index for index in range(completions) if index not in taken][:count]


def test_the_delay_doubles_up_to_ten_minutes():
    waits = [remaining(failures, NOW, NOW) // SECOND for failures in range(1, 9)]
    assert waits == [10, 20, 40, 80, 160, 320, 600, 600]
    assert remaining(1, NOW, NOW + 4 * SECOND) == 6 * SECOND
    assert remaining(1, NOW, NOW + 11 * SECOND) == 0
    assert BackoffRecord().remaining(NOW) == 0


def test_a_pod_is_counted_when_its_finalizer_is_gone_and_not_before():
    draft = JobStatusDraft(
        {"succeeded": 1, "uncountedTerminatedPods": {"succeeded": ["a", "b"], "failed": ["c"]}}
    )
    assert draft.count_untracked({"b"})
    assert draft.body() == {
        "succeeded": 2,
        "failed": 1,
        "uncountedTerminatedPods": {"succeeded": ["b"]},
    }
    assert not draft.count_untracked({"b"})


def test_removals_are_expected_until_each_was_seen():
    found = FinalizerExpectations()
    found.expect_removed("ns/a", ["u1", "u2"])
    found.expect_removed("ns/a", ["u3"])
    found.removal_observed("ns/a", "u2")
    found.removal_observed("ns/b", "u1")
    assert found.expected("ns/a") == {"u1", "u3"}
    found.forget("ns/a")
    assert found.expected("ns/a") == frozenset()


def test_an_indexed_pod_knows_its_index_and_keeps_its_name_short():
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "one"}, {"name": "two", "env": [{"name": "X"}]}]},
    }
    tree = {"metadata": {"name": "j" * 63, "namespace": "ns"}, "spec": {"template": template}}
    pod = new_pod(Job.from_tree(tree), 12, (2, 1))
    assert pod["metadata"]["generateName"] == "j" * 54 + "-12-"
    assert pod["metadata"]["annotations"] == {
        "batch.kubernetes.io/job-completion-index": "12",
        "batch.kubernetes.io/job-index-failure-count": "2",
        "batch.kubernetes.io/job-index-ignored-failure-count": "1",
    }
    names = [[each["name"] for each in c["env"]] for c in pod["spec"]["containers"]]
    assert names == [["JOB_COMPLETION_INDEX"], ["X", "JOB_COMPLETION_INDEX"]]
    assert template["spec"]["containers"][0] == {"name": "one"}
