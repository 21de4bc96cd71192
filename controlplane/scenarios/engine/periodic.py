"""The periodic work that is left when a run has settled, from the final objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.api.times import SECOND, format_time
from controlplane.controllers.common.selection import selected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controlplane.scenarios.engine.run import Run

SHOWN = 5
"""The number of named objects of each sort."""


def periodic_work(run: Run) -> tuple[str, ...]:
    """Return the periodic work that a longer run would show, one line for each sort or object."""
    found = [*_autoscalers(run), *_cron_jobs(run), *_restarts(run), *_unschedulable(run)]
    found += _missing(run)
    from controlplane.kubelet.node.node_status import LEASE_RENEW_INTERVAL

    config = run.cluster.config
    nodes = len(run.objects("/registry/minions/"))
    if config.heartbeats and nodes:
        found.append(
            f"heartbeats of {nodes} node{'s'[: nodes != 1]} {_every(LEASE_RENEW_INTERVAL)}"
        )
    for kind in config.own_controllers:
        found += kind.goes_on()
    if config.topology_updates_ns is not None and config.kubelet_settings:
        found.append(f"reports of NUMA zones {_every(config.topology_updates_ns)}")
    return tuple(found)


def _runs(run: Run, name: str) -> bool:
    from controlplane.controllers.loops import manager

    config = run.cluster.config
    return bool(config.controllers) and name in selected(
        config.enabled_controllers, manager.names()
    )


def _every(period_ns: int) -> str:
    return f"every {period_ns // SECOND} s"


def _listed(what: str, names: list[str], when: str) -> Iterator[str]:
    """One line for several objects of a sort."""
    if names:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        yield f"{what} {', '.join(names[:SHOWN])}{more} {when}"


def _autoscalers(run: Run) -> Iterator[str]:
    from controlplane.controllers.autoscaling.podautoscaler.controller import (
        PERIOD_NS,
        HorizontalPodAutoscalerController,
    )

    if _runs(run, HorizontalPodAutoscalerController.name):
        names = [obj.key for obj in run.objects("/registry/horizontalpodautoscalers/")]
        yield from _listed("HorizontalPodAutoscaler", names, _every(PERIOD_NS))


def _cron_jobs(run: Run) -> Iterator[str]:
    from controlplane.controllers.workloads.cronjob.controller import CronJobController, zoned
    from controlplane.controllers.workloads.cronjob.schedule import ScheduleError, parse
    from controlplane.controllers.workloads.cronjob.zones import UnknownTimeZone

    if not _runs(run, CronJobController.name):
        return
    now = run.cluster.config.epoch_ns + run.world.now
    found = run.objects("/registry/cronjobs/")
    for obj in found[:SHOWN]:
        view: Any = obj.view
        if view.spec.suspend:
            continue
        try:
            at = parse(zoned(view)).next(now)
        except (ScheduleError, UnknownTimeZone, ValueError):
            continue
        yield f"CronJob {obj.key} at {format_time(at)} (virtual second {(at - now + run.world.now) / SECOND:g})"
    if len(found) > SHOWN:
        yield f"{len(found) - SHOWN} more CronJobs"


def _restarts(run: Run) -> Iterator[str]:
    from controlplane.kubelet.pod.restarts import LARGEST_DELAY

    names = []
    for obj in run.objects("/registry/pods/"):
        view: Any = obj.view
        if (
            view.status.phase in {"Succeeded", "Failed"}
            or view.spec.node_name not in run.cluster.machines
        ):
            continue
        for each in view.status.container_statuses:
            waiting = each.state.waiting
            if waiting is not None and waiting.reason == "CrashLoopBackOff":
                names.append(f"{obj.key} ({each.name})")
    yield from _listed("restarts of pod", names, f"{_every(LARGEST_DELAY)} at least")


def _unschedulable(run: Run) -> Iterator[str]:
    from controlplane.scheduler.queue.flushes import DEFAULT_MAX_IN_UNSCHEDULABLE_PODS

    names = []
    for obj in run.objects("/registry/pods/"):
        view: Any = obj.view
        for each in view.status.conditions:
            if (each.type, each.status, each.reason) == ("PodScheduled", "False", "Unschedulable"):
                names.append(obj.key)
    yield from _listed("scheduling of pod", names, _every(DEFAULT_MAX_IN_UNSCHEDULABLE_PODS))


def _missing(run: Run) -> Iterator[str]:
    if not run.cluster.probes:
        return
    for name in run.cluster.scheduler.missing():
        yield (
            f"no pod is scheduled until {name} is served:"
            " is its CustomResourceDefinition installed (--with scheduler-plugins)?"
        )
