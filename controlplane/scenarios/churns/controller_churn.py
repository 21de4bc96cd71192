"""The default churn for controllers: workloads of every kind change while the controller manager fails.

A user creates, scales, updates and deletes what the chosen controllers look after, at the same moments in
every run; what differs is the order of tasks, when the controller manager dies (at any moment, or right after
one of its writes), what it does not see in time, and which connections break or wait. There are two API
servers over one store, of which the second's caches lag.

However it goes, nothing outlives its controller, nothing is there twice, no more pods are made than were asked for, in
their order, and the world ends as it does when nothing fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scenarios.authoring.controller_faults import (
    intermediate_state,
    stale_state,
    unobserved_state,
)
from controlplane.scenarios.authoring.faults import CHAOS, cut, heal, restarts, sometimes
from controlplane.scenarios.authoring.worlds import lagging_servers
from controlplane.scenarios.churns.controller_clients import CLIENTS
from controlplane.scenarios.churns.controller_workloads import PARTS as WORKLOADS
from controlplane.scenarios.churns.controller_workloads import touch_nodes
from controlplane.scenarios.engine.option import Option
from controlplane.scenarios.engine.scenario import Fault, Invariant, Scenario
from controlplane.scenarios.invariants.budgets import evictions_keep_to_budgets
from controlplane.scenarios.invariants.convergence import converges
from controlplane.scenarios.invariants.daemonsets import (
    daemons_roll_within_their_limit,
    daemons_wait_for_the_one_before,
)
from controlplane.scenarios.invariants.expectations import expectations_are_what_is_to_come
from controlplane.scenarios.invariants.identity import writes_keep_to_their_object
from controlplane.scenarios.invariants.linearizability import linearizable
from controlplane.scenarios.invariants.owners import (
    adopters_look_first,
    nothing_outlives_its_owners,
)
from controlplane.scenarios.invariants.reconciles import decisions_follow_caches
from controlplane.scenarios.invariants.replicas import (
    finished_jobs_let_their_pods_go,
    jobs_count_what_ended,
    no_more_deletions_than_surplus,
    no_more_pods_than_asked,
    rollouts_keep_to_their_surge,
)
from controlplane.scenarios.invariants.settled import (
    budgets_count_their_pods,
    no_pod_stays_on_a_node_that_evicts_it,
    slices_have_the_pods_of_their_service,
    statuses_count_their_pods,
)
from controlplane.scenarios.invariants.statefulsets import (
    ordinals_begin_in_order,
    ordinals_go_one_at_a_time,
)
from controlplane.scenarios.invariants.taints import evictions_follow_taints
from controlplane.scenarios.invariants.workloads import (
    no_orphans,
    one_active_pod_an_index,
    one_daemon_a_node,
    one_life_of_an_ordinal,
)
from controlplane.scenarios.invariants.writes import writes_do_what_was_asked

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User

MANAGER = "controller-manager"
PARTS = {**CLIENTS, **WORKLOADS}
PART = Option("part", choices=tuple(PARTS), varied=True, help="The workloads that change.")
FAULTS: dict[str, Fault] = {
    "dies": restarts(MANAGER, 2, moments=16),
    "dies-amid": intermediate_state(MANAGER, times=2, moments=24),
    "travels": stale_state(MANAGER, times=2, moments=24),
    "overlooks": unobserved_state(MANAGER, times=2, moments=16),
    "hears-late": unobserved_state(MANAGER, times=2, moments=24, points="watch *"),
    "cut-off": sometimes(
        cut(MANAGER, "apiserver"), heal(MANAGER, "apiserver"), times=2, lasts_s=(1, 5, 40)
    ),
}
"""The faults for the controller manager, by name."""
FAULT = Option(
    "fault",
    choices=("any", "none", *FAULTS),
    default="any",
    help="What happens to the controller manager; any: one of them, a choice.",
)
STREAM = Option(
    "watch-list",
    type=bool,
    default=True,
    help="Clients begin with a stream that is not older than their request (gate WatchListClient).",
)


async def churn(user: User) -> None:
    """The workloads of the chosen part change.

    The run goes on until no timer but idle ones is left, so also through the longest backoff (1,000 s). A fixed sleep
    of 1,100 s in place of that cost a third of all steps, most of them bookmarks, and found nothing more.
    """
    main, _ = PARTS[user.options["part"]]
    await main(user)
    if user.options["part"] in CLIENTS:
        return
    await user.sleep(150)
    await touch_nodes(user)


async def chaos(user: User) -> None:
    """One of the faults."""
    name = user.options["fault"]
    if name == "none":
        return
    if name == "any":
        name = list(FAULTS)[user.ctx.choose("fault", len(FAULTS), "which")]
    await FAULTS[name].main(user)


def build(setting: Setting) -> ClusterConfig:
    """Two servers, of which one lags, and the controllers of the part."""
    from controlplane.controllers.common.selection import STANDARD

    _, controllers = PARTS[setting["part"]]
    return lagging_servers(heartbeats=False, enabled_controllers=(*STANDARD, *controllers))(setting)


def invariants(setting: Setting) -> tuple[Invariant, ...]:
    """The invariants.

    CronJobs name their runs after the time, so their final state depends on the timing. A DaemonSet that surges has two
    pods on a node for a while. In some parts the workload's controller alone deletes pods. The ends of part busy are
    not judged: upstream, too, leaves the finalizer of a pod whose Job was made again under its name when the watch told
    of both in one update (`updateJob` of job_controller.go compares no uid), and the count of a budget whose pod lost
    its label before it went (`updatePod` of disruption.go looks at the new labels alone).
    """
    part = setting[PART.key]
    nodes = [each["metadata"]["name"] for each in setting.nodes()]
    found: tuple[Invariant, ...] = (
        writes_keep_to_their_object("etcd"),
        writes_do_what_was_asked("etcd"),
        adopters_look_first(MANAGER),
        nothing_outlives_its_owners(),
        no_orphans(),
        one_active_pod_an_index("etcd"),
        one_life_of_an_ordinal(*nodes),
        no_more_pods_than_asked("etcd"),
        rollouts_keep_to_their_surge("etcd"),
        ordinals_begin_in_order("etcd"),
        jobs_count_what_ended("etcd"),
        finished_jobs_let_their_pods_go(),
        expectations_are_what_is_to_come(MANAGER),
        decisions_follow_caches(MANAGER),
        daemons_wait_for_the_one_before("etcd"),
        statuses_count_their_pods(),
        slices_have_the_pods_of_their_service(),
        budgets_count_their_pods(),
        no_pod_stays_on_a_node_that_evicts_it(),
        evictions_follow_taints(MANAGER),
    )
    if part != "surging-daemons":
        found = (*found, one_daemon_a_node("etcd"))
    if part in ("rollouts", "replaced", "ready-later", "autoscaled"):
        found = (*found, no_more_deletions_than_surplus("etcd"))
    if part in ("stateful", "claims", "again"):
        found = (*found, ordinals_go_one_at_a_time("etcd"))
    if part == "budgets":
        found = (*found, evictions_keep_to_budgets("etcd"))
    if part in ("daemons", "again"):
        found = (*found, daemons_roll_within_their_limit("etcd"))
    if part == "busy":
        found = tuple(each for each in found if each.after)
    if part == "writers":
        found = (*found, linearizable("configmaps"))
    return found if part == "cron" or part in CLIENTS else (*found, converges())


SCENARIO = Scenario(
    "controller-churn",
    workload=churn,
    build=build,
    faults=(Fault(CHAOS, chaos),),
    invariants=invariants,
    options=(PART, FAULT, STREAM),
)
