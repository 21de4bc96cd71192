"""Deletions keep within their budgets."""

from __future__ import annotations

from controlplane.autoscaler.deletions import within_budget
from controlplane.autoscaler.groups import Cloud, GroupOptions, Instance, NodeGroup
from controlplane.autoscaler.options import Options
from controlplane.autoscaler.planner import Deletions, Ongoing
from tests.autoscaler.test_simulation import node

NAMES = ("a0", "a1", "b0", "b1")


def cloud(*, whole: bool = False) -> Cloud:
    groups = tuple(
        NodeGroup(
            name,
            0,
            9,
            2,
            None,
            (Instance(f"{name}0"), Instance(f"{name}1")),
            GroupOptions(zero_or_max=whole and name == "b"),
        )
        for name in "ab"
    )
    return Cloud(groups, {name: name[0] for name in NAMES})


def cropped(
    found: Deletions, options: Options, ongoing: Ongoing, *, whole: bool = False
) -> list[tuple[str, int, bool]]:
    nodes = [node(name) for name in NAMES]
    batches = within_budget(found, cloud(whole=whole), options, ongoing, nodes)
    return [(each.group, len(each.nodes), each.drained) for each in batches]


def test_empty_nodes_come_first_and_one_node_is_drained() -> None:
    found = Deletions((node("a0"), node("a1")), (node("b0"), node("b1")))
    assert cropped(found, Options(), Ongoing()) == [("a", 2, False), ("b", 1, True)]


def test_deletions_under_way_take_from_the_budgets() -> None:
    found = Deletions((node("a0"), node("a1")), (node("b0"),))
    ongoing = Ongoing(("x",), ("y",))
    assert cropped(found, Options(parallelism=3), ongoing) == [("a", 1, False)]


def test_a_whole_group_may_go_over_the_budget_once() -> None:
    found = Deletions((node("b0"), node("b1")))
    assert cropped(found, Options(parallelism=1), Ongoing(), whole=True) == [("b", 2, False)]


def test_part_of_a_whole_group_stays() -> None:
    found = Deletions((node("b0"),))
    assert cropped(found, Options(), Ongoing(), whole=True) == []
