"""Events of a check, derived from the manifests and the nodes."""

from __future__ import annotations

import pytest
import yaml

from controlplane.errors import UsageError
from controlplane.scenarios.check.events import (
    alike,
    events_of,
    lasts,
    pairs_of,
    parse,
    without_alike,
)
from controlplane.scenarios.check.subject import subject_of
from tests.scenarios.check.worlds import budget, deployment, nodes, plan, scaler


def subject(text):
    trees = [tree for tree in yaml.safe_load_all(text) if tree]
    made = [tree for tree in trees if tree["kind"] == "Node"]
    return subject_of([tree for tree in trees if tree["kind"] != "Node"], made)


def events(text):
    return [str(each) for each in events_of(subject(text))]


def test_each_kind_has_its_targets():
    text = nodes("a", "b") + deployment() + scaler(1, 3)
    assert events(text) == [
        "apply",
        "load:Deployment/default/web",
        "rollout:Deployment/default/web",
        "drain:node-1",
        "drain:node-2",
        "taint:node-1",
        "taint:node-2",
        "lose:node-1",
        "lose:node-2",
        "lose-zone:a",
        "lose-zone:b",
    ]


def test_a_single_node_is_not_taken_away():
    assert events(nodes("a") + deployment()) == ["apply", "rollout:Deployment/default/web"]


def test_one_zone_is_not_lost():
    assert not [each for each in events(nodes("a", "a") + deployment()) if "zone" in each]


def test_a_spot_node_is_taken():
    text = nodes("a", "a").replace("zone: a}", "zone: a, karpenter.sh/capacity-type: spot}", 1)
    assert [each for each in events(text + deployment()) if each.startswith("spot")] == [
        "spot:node-1"
    ]


def test_an_autoscaler_without_cpu_requests_has_no_load():
    text = (
        nodes("a", "a")
        + deployment().replace("resources: {requests: {cpu: 100m}}", "")
        + scaler(1, 3)
    )
    assert not [each for each in events(text) if each.startswith("load")]


def test_of_many_nodes_each_sort_is_tried():
    text = nodes("a", "a", "a", "a", "a", "b", "c") + deployment()
    assert [each for each in events(text) if each.startswith("drain")] == [
        "drain:node-1",
        "drain:node-2",
        "drain:node-6",
        "drain:node-7",
    ]


def test_an_event_on_a_node_that_is_like_another_is_left_out():
    sub = subject(nodes("a", "a", "a") + deployment())
    same = alike(sub, {"node-1": ["web"], "node-2": ["web"]})
    assert same == {"node-1": "node-1", "node-2": "node-1", "node-3": "node-3"}
    kept = [str(each) for each in without_alike(events_of(sub), same)]
    assert "drain:node-1" in kept
    assert "drain:node-2" not in kept
    assert "drain:node-3" in kept


def test_pairs_begin_with_nodes_that_go_one_after_the_other():
    sub = subject(nodes("a", "a") + deployment() + scaler(1, 3))
    pairs = [tuple(map(str, pair)) for pair in pairs_of(events_of(sub), {})]
    assert pairs[0] == ("drain:node-1", "drain:node-2")
    assert ("load:Deployment/default/web", "apply") in pairs
    assert ("drain:node-1", "lose:node-1") not in pairs
    assert ("drain:node-1", "apply") not in pairs


def test_a_node_is_back_when_the_next_one_goes_and_away_during_an_update():
    drain = parse("drain:node-1")
    assert not lasts(drain, parse("drain:node-2"))
    assert lasts(drain, parse("rollout:Deployment/default/web"))
    assert lasts(parse("load:Deployment/default/web"), None)


@pytest.mark.parametrize("text", ["drain", "apply:x", "flood:node-1", "", "drain:"])
def test_an_event_of_another_form_is_refused(text):
    with pytest.raises(ValueError, match="an event, one of apply, load:WORKLOAD"):
        parse(text)


def test_an_event_on_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="--event load:Deployment/x/y: the files have no such"):
        plan(tmp_path, nodes("a", "a") + deployment(), event=("load:Deployment/x/y",))


@pytest.mark.parametrize(
    ("spec", "wanted", "needed"),
    [
        ("minAvailable: 2", 4, 2),
        ("minAvailable: 50%", 5, 3),
        ("maxUnavailable: 1", 4, 3),
        ("maxUnavailable: 30%", 10, 7),
        ("maxUnavailable: 100%", 3, 0),
    ],
)
def test_a_budget_asks_for_so_many(spec, wanted, needed):
    (found,) = subject(budget(spec)).budgets
    assert found.needed(wanted) == needed
