"""A churn of Jobs under Kueue: they come, start, are stopped for others, and go, while Kueue crashes at times.

Two cluster queues share a cohort. There are no nodes: only the start and the stop of Jobs matter, not their pods.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from controlplane.client.resources import JOBS as RESOURCE
from controlplane.kueue.names import ELASTIC_JOB
from controlplane.scenarios.authoring.kueue_worlds import (
    cluster_queue,
    create,
    delete,
    flavor,
    kueue_alone,
    local_queue,
    workloads_now,
)
from controlplane.scenarios.churns.kueue_churn import ALONE, REPLICAS, crash_or_cut
from controlplane.scenarios.churns.parts import USERS, crashes, operations, pause, stored
from controlplane.scenarios.engine.option import Option
from controlplane.scenarios.engine.scenario import Scenario, Sometimes
from controlplane.scenarios.invariants.kueue import QUOTA_IS_GIVEN_ONCE
from controlplane.scenarios.invariants.kueue_jobs import (
    AT_REST_ADMITTED_JOBS_RUN,
    AT_REST_ELASTIC_PODS_HAVE_QUOTA,
    AT_REST_ONE_WORKLOAD_FOR_EACH_JOB,
    AT_REST_RUNNING_JOBS_ARE_ADMITTED,
    JOBS,
)
from controlplane.scenarios.invariants.kueue_waiting import THE_FINISHED_STAY_SO

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User

NAMES: Final = ("a", "b", "c", "d")
QUEUES: Final = ("red", "blue")
CLASSES: Final = ("low", "high")
CONTROLLERS: Final = ("job-controller", "garbage-collector-controller")
PAUSES: Final = (0, 0, 1, 3)
REST_S: Final = 60
OPERATIONS = operations(10)
CRASHES = crashes("Kueue")
ELASTIC = Option(
    "elastic",
    type=bool,
    default=False,
    help="Let some Jobs be elastic, and grow and shrink while they run.",
)
ELASTIC_NAMES: Final = ("c", "d")
"""Jobs that are elastic, with that option."""


def build(setting: Setting) -> ClusterConfig:
    """The API server, Kueue, the controller of Jobs and the garbage collector."""
    from attrs import evolve

    return evolve(kueue_alone(setting), controllers=True, enabled_controllers=CONTROLLERS)


def job(
    name: str, queue: str, pods: int, priority: str, *, elastic: bool = False
) -> dict[str, Any]:
    """A suspended Job of pods of one CPU; users suspend what they hand to Kueue, no webhook does.

    An elastic one has no number of completions, and the gate that the webhook adds.
    """
    container = {"name": "c", "image": "work", "resources": {"requests": {"cpu": "1"}}}
    labels = {
        "kueue.x-k8s.io/queue-name": queue,
        "kueue.x-k8s.io/priority-class": priority,
    }
    made: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "suspend": True,
            "parallelism": pods,
            "completions": pods,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }
    if elastic:
        del made["spec"]["completions"]
        made["metadata"]["annotations"] = {ELASTIC_JOB: "true"}
        made["spec"]["template"]["spec"]["schedulingGates"] = [{"name": ELASTIC_JOB}]
    return made


async def churn(user: User) -> None:
    """Create the queues, then let several tasks do their share."""
    await create(user, flavor("default"))
    for value, name in enumerate(CLASSES):
        tree = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": name},
            "value": 10 * value,
        }
        await create(user, tree)
    for name in QUEUES:
        await create(user, cluster_queue(name, {"default": 2}, "team"), local_queue(name))
    await user.divide(_share, user.options["operations"], user.options["users"])
    await user.sleep(REST_S)


async def _share(user: User, count: int) -> None:
    todo: list[Any] = [*[_some_job] * 4, _some_label, _some_workload]
    if user.options["elastic"]:
        todo += [_some_size] * 3
    if user.options["crashes"]:
        todo.append(crash_or_cut if user.options["replicas"] > 1 else ALONE)
    for _ in range(count):
        await todo[user.choose(len(todo), "what")](user)
        await pause(user, PAUSES)


async def _some_job(user: User) -> None:
    """Create a Job, or delete the one of that name."""
    name = NAMES[user.choose(len(NAMES), "which job")]
    if name in stored(user, JOBS):
        policy = "Background"
        await user.attempt(user.client.delete(RESOURCE, "default", name, propagation_policy=policy))
        return
    queue = QUEUES[user.choose(len(QUEUES), "which queue")]
    priority = CLASSES[user.choose(len(CLASSES), "which priority")]
    pods = 1 + user.choose(3, "more pods than one")
    elastic = user.options["elastic"] and name in ELASTIC_NAMES
    await user.attempt(user.create(job(name, queue, pods, priority, elastic=elastic)))


async def _some_size(user: User) -> None:
    """Let an elastic Job grow or shrink."""
    name = ELASTIC_NAMES[user.choose(len(ELASTIC_NAMES), "which job")]
    if name in stored(user, JOBS):
        pods = 1 + user.choose(4, "more pods than one")
        await user.attempt(user.patch("Job", name, {"spec": {"parallelism": pods}}))


async def _some_label(user: User) -> None:
    """Change a Job's metadata, which means nothing to Kueue."""
    name = NAMES[user.choose(len(NAMES), "which job")]
    if name in stored(user, JOBS):
        labels = {"metadata": {"labels": {"seen": str(user.run.world.now)}}}
        await user.attempt(user.patch("Job", name, labels))


async def _some_workload(user: User) -> None:
    """Delete the Workload of a Job, which Kueue has to stop and to queue again."""
    names = list(workloads_now(user))
    if names:
        name = names[user.choose(len(names), "which workload")]
        await user.attempt(delete(user, "Workload", name, "default"))


def _suspended(run: Run, *, suspended: bool) -> bool:
    return any(bool(obj.tree["spec"].get("suspend")) is suspended for obj in run.objects(JOBS))


SCENARIO = Scenario(
    "kueue-jobs-churn",
    title="jobs come and go; what runs is admitted, and what is admitted runs",
    workload=churn,
    build=build,
    invariants=(
        QUOTA_IS_GIVEN_ONCE,
        THE_FINISHED_STAY_SO,
        AT_REST_RUNNING_JOBS_ARE_ADMITTED,
        AT_REST_ADMITTED_JOBS_RUN,
        AT_REST_ONE_WORKLOAD_FOR_EACH_JOB,
        AT_REST_ELASTIC_PODS_HAVE_QUOTA,
    ),
    sometimes=(
        Sometimes("a job runs", partial(_suspended, suspended=False)),
        Sometimes("a job waits", partial(_suspended, suspended=True)),
    ),
    options=(OPERATIONS, USERS, CRASHES, REPLICAS, ELASTIC),
)
