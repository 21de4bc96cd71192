"""A search on two processes sees what one process sees, and finds the same first finding."""

from __future__ import annotations

import warnings

import pytest

from controlplane.races import catalogue
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import parallel
from controlplane.scenarios.search.exploring import Campaign
from controlplane.scenarios.search.parallel import Limits


def plan(number: str, **options):
    return plan_of(catalogue.find(number).scenario, **options)


@pytest.mark.slow
def test_two_processes_see_what_one_sees() -> None:
    clean = plan("138324")
    alone = Campaign(clean).explore(100)
    together = parallel.explore(clean, "random-walk", Limits(100), jobs=2)
    assert together.schedules == alone.schedules == 100
    assert together.steps == alone.steps
    assert sorted(together.classes) == sorted(alone.classes)
    assert together.verdicts == alone.verdicts


@pytest.mark.slow
def test_the_first_finding_is_the_same() -> None:
    broken = plan("138324", without_fix=("138324",))
    alone = Campaign(broken).explore(400)
    together = parallel.explore(broken, "random-walk", Limits(400), jobs=2)
    (one,), (other,) = alone.findings, together.failing
    assert (one.schedule, one.seed) == (other.schedule, other.seed)
    assert list(one.result.choices) == list(other.choices)


def test_a_search_that_is_over_asks_for_nothing_more() -> None:
    limits = Limits(10_000, over=lambda: True)
    seen = parallel.explore(plan("138324"), "random-walk", limits, jobs=2)
    assert seen.schedules == 0


def test_a_worker_makes_the_plan_of_a_search_once(monkeypatch) -> None:
    plans = []
    monkeypatch.setattr(parallel, "_run", lambda plan, _piece, _over: plans.append(plan))
    one, other = (plan("138324", nodes=count).header() for count in (2, 3))
    for number, header in enumerate((one, one, other)):
        parallel.work(parallel.Piece(header, "random-walk", number, 0, 1, False, 0))
    assert plans[0] is plans[1]
    assert [each.options["nodes"] for each in plans[1:]] == [2, 3]


def test_what_enumerates_is_not_dealt_out() -> None:
    clean = plan("138324")
    assert parallel.can_be_dealt_out(clean, "portfolio")
    assert not parallel.can_be_dealt_out(clean, "dpor")


@pytest.mark.slow
def test_a_search_on_a_dask_cluster_sees_the_same(monkeypatch) -> None:
    distributed = pytest.importorskip("distributed")
    warnings.simplefilter("ignore")
    clean = plan("138324")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        executor = client.get_executor()
        seen = parallel.explore(clean, "random-walk", Limits(60), jobs=1, executor=executor)
    alone = Campaign(clean).explore(60)
    assert sorted(seen.classes) == sorted(alone.classes)


def test_what_should_happen_sometimes_is_counted_over_all_runs() -> None:
    from attrs import evolve

    from controlplane.scenarios import Sometimes

    scenario = evolve(
        catalogue.find("138324").scenario,
        sometimes=(
            Sometimes("a pod was bound", lambda run: run.cluster.scheduler.core is not None),
            Sometimes("never", lambda _run: False),
        ),
    )
    seen = Campaign(plan_of(scenario)).explore(10)
    assert seen.reached == {"a pod was bound": 10}
