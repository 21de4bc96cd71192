"""Plans made from a calm run: which, in which order, and what a search through them finds."""

from __future__ import annotations

import pytest

from controlplane.races import catalogue
from controlplane.scenarios.engine.common_options import PLANS
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.plans.language import HOLD, parse
from controlplane.scenarios.plans.passing import Passing
from controlplane.scenarios.search.exploring import Campaign, first_seed
from controlplane.scenarios.search.planning import (
    Trace,
    by_rarity,
    candidates,
    enumeration_of,
    trace_of,
)
from controlplane.scenarios.search.tally import Seen

OWNED = {"metadata": {"ownerReferences": [{"name": "web"}]}}


def lines(trace: Trace, servers: int = 1) -> list[str]:
    return [str(each.rule) for each in candidates(trace, servers)]


def test_an_event_is_held_until_a_later_write_to_its_object_or_one_that_names_it() -> None:
    event = Passing("event", "manager", "apiserver", "ADDED", "pods", "default/web-1", OWNED)
    owner = Passing("answer", "user", "apiserver", "delete", "replicasets", "default/web")
    other = Passing("answer", "user", "apiserver", "delete", "replicasets", "default/api")
    assert lines(Trace((event, other, owner), ("user",))) == [
        "hold event manager ADDED pods default/web-1 until answer user delete replicasets default/web at most 20"
    ]


def test_a_write_is_held_until_the_next_of_another_process_lost_refused_and_its_process_killed() -> (
    None
):
    asked = Passing("request", "a", "apiserver", "update", "pods", "default/web")
    foreign = Passing("answer", "b", "apiserver", "patch", "pods", "default/web")
    found = lines(Trace((asked, foreign)))
    assert found[:7] == [
        "hold request a update pods default/web until answer b patch pods default/web at most 20",
        "lose request a update pods default/web",
        "fail request a update pods default/web with 409",
        "fail request a update pods default/web with 500",
        "kill a before request a update pods default/web for 2",
        "kill a after request a update pods default/web for 2",
        "lose answer b patch pods default/web",
    ]


def test_a_read_of_one_object_fails_unless_it_is_the_servers_own() -> None:
    asked = Passing("request", "a", "apiserver", "get", "pods", "default/web")
    stored = Passing("request", "apiserver", "etcd", "get", "etcd/pods", "default/web")
    assert lines(Trace((asked, stored))) == ["fail request a get pods default/web with 500"]


def test_requests_of_users_come_later_but_are_neither_lost_nor_failed() -> None:
    asked = Passing("request", "user", "apiserver", "delete", "pods", "default/web")
    bound = Passing("answer", "scheduler", "apiserver", "create", "pods/binding", "default/web")
    found = lines(Trace((asked, bound), ("user",)))
    assert [each for each in found if "request user" in each] == [
        "hold request user delete pods default/web until answer scheduler create pods/binding default/web at most 20"
    ]


def test_the_second_message_of_a_kind_is_told_from_the_first() -> None:
    asked = Passing("request", "a", "apiserver", "update", "pods", "default/web")
    found = lines(Trace((asked, asked)))
    assert "lose request a update pods default/web" in found
    assert "lose request a update pods default/web #2" in found


def test_caches_are_frozen_only_where_there_are_several_servers() -> None:
    answer = Passing("answer", "a", "apiserver", "update", "pods", "default/web")
    foreign = Passing("answer", "b", "apiserver", "patch", "pods", "default/web")
    trace = Trace((answer, foreign))
    assert not [each for each in lines(trace) if each.startswith("freeze")]
    assert (
        "freeze apiserver-2 pods from answer a update pods default/web"
        " until answer b patch pods default/web at most 20" in lines(trace, 2)
    )


def test_every_form_is_tried_once_before_any_twice_and_rare_ones_first() -> None:
    often = [Passing("request", "a", "s", "update", "pods", f"default/{n}") for n in range(3)]
    rare = Passing("request", "a", "s", "delete", "nodes", "node-1")
    found = by_rarity(list(candidates(Trace((*often, rare)))))
    forms = [each.form for each in found]
    assert "delete" in forms[0]
    different = len(set(forms))
    assert len(set(forms[:different])) == different


def test_all_lines_of_an_enumeration_can_be_read_and_the_first_schedule_is_calm() -> None:
    plan = catalogue.find("26120").unfixed()
    enumeration = enumeration_of(plan)
    assert enumeration.at(0)[1].lines == ()
    for _, each in enumeration.singles:
        assert parse(str(each.rule)).lines == (each.rule,)
    pairs = [enumeration.at(len(enumeration.singles) + number)[1] for number in range(1, 30)]
    assert any(len(each.lines) == 2 for each in pairs)


def test_a_trace_leaves_the_background_out_and_knows_its_users() -> None:
    trace = trace_of(catalogue.find("26120").unfixed(), 0)
    assert "user" in trace.users
    assert not {each.resource for each in trace.passed} & {"events", "leases", "nodes/status"}


@pytest.mark.slow
def test_a_search_by_plans_finds_a_race_and_says_by_which_plan() -> None:
    race = catalogue.find("26120")
    campaign = Campaign(race.unfixed(), PLANS)
    found = campaign.explore(60)
    seen = Seen.of(found, campaign.lines_of)
    (failing,) = seen.failing
    (line,) = failing.lines
    assert parse(line).lines[0].action == HOLD
    again = campaign.again(found.findings[0])
    assert again.result.reason == failing.reason
    assert again.control is not None
    assert again.control.outcomes()[0].note != "not reached"
    # The plan alone repeats it on the same code, and no more on mended code.
    mended = plan_of(race.scenario, fix=("26120",)).with_lines(failing.lines)
    assert Campaign(mended, "fifo").explore(1).findings == ()


def test_seeds_of_a_search_by_plans_share_no_schedules() -> None:
    assert first_seed(0, PLANS) == 0
    assert first_seed(1, PLANS) > 100_000
    assert first_seed(1) != first_seed(2)
