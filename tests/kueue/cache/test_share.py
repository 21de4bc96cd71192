from __future__ import annotations

import math

from controlplane.kueue.amounts import UNLIMITED
from controlplane.kueue.cache.share import LEAST, Share, compare, dominant_share, fair_weight
from tests.kueue.objects import admitted, cache, cluster_queue, workload


def shares(*queues, workloads):
    made = cache(list(queues), workloads)
    return {name: dominant_share(queue) for name, queue in made.tree.queues.items()}


def test_a_share_is_what_is_borrowed_per_thousand_of_what_could_be() -> None:
    queues = [
        cluster_queue("a", {"default/cpu": 2}, "c"),
        cluster_queue("b", {"default/cpu": 8}, "c"),
    ]
    found = shares(*queues, workloads=[admitted(workload("w", requests={"cpu": "4"}), "a")])
    assert found["a"].precise() == 200.0
    assert found["a"].resource == "cpu"
    assert not found["b"].borrowing


def test_a_queue_without_cohort_has_no_share() -> None:
    found = shares(
        cluster_queue("a", {"default/cpu": 2}),
        workloads=[admitted(workload("w", requests={"cpu": "4"}), "a")],
    )
    assert found["a"].zero()


def test_a_borrower_of_weight_zero_comes_after_all_others() -> None:
    idle, light, heavy = Share(0.0), Share(0.0, 5.0, "cpu", True), Share(0.0, 9.0, "cpu", True)
    ordinary = Share(1.0, 900.0, "cpu", True)
    assert compare(ordinary, light) < 0 < compare(heavy, light)
    assert compare(idle, Share()) == 0
    assert compare(LEAST, idle) < 0
    assert math.isinf(light.precise())
    assert light.rounded() == UNLIMITED


def test_weights_are_quantities() -> None:
    assert fair_weight(None) == 1.0
    assert fair_weight({"weight": "250m"}) == 0.25
    assert fair_weight({"weight": "2k"}) == 2000.0
