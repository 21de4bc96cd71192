"""Plans made from runs without faults, what is compared, and the judgement of runs: all by values."""

from __future__ import annotations

from attrs import evolve

from controlplane.operators.campaign import Campaign, pace_of
from controlplane.operators.generation import candidates
from controlplane.operators.masks import reference_of
from controlplane.operators.observation import Change, Record, StepResult, family_of
from controlplane.operators.oracles import alarms_of, calm_alarms
from controlplane.scenarios.plans.language import ANSWER, EVENT, parse
from controlplane.scenarios.plans.outside import Seen
from controlplane.scenarios.plans.passing import Passing


def tree(name, uid="u", **fields):
    return {"metadata": {"name": name, "uid": uid, "resourceVersion": "1"}, **fields}


def write(step, verb, resource, name, after=None, before=None, code=200, effective=True):
    what = Passing(ANSWER, "op", "apiserver", verb, resource, name, after, code, before=before)
    return Seen(what, step, 0, effective)


def event(step, kind, resource, name, after, before=None, revision=1):
    what = Passing(
        EVENT, "op", "apiserver", kind, resource, name, after, revision=revision, before=before
    )
    return Seen(what, step, 0)


def record(seen=(), changes=(), objects=None, **more):
    return Record((), (), (), objects or {}, tuple(changes), tuple(seen), **more)


def lines(calm, form):
    return [each.lines for each in candidates(calm) if each.form == form]


def test_writes_are_named_by_one_field_that_they_changed():
    one = tree("a", spec={"size": 1, "text": "x" * 60})
    two = tree("a", spec={"size": 2, "text": "y" * 60})
    calm = [record([write(1, "update", "things", "default/a", two, one)])] * 2
    assert lines(calm, "crash") == [
        ("kill op before answer op update things default/a where spec.size=2 was spec.size=1",)
    ]
    assert lines(calm, "error") == [
        ("fail request op update things default/a where spec.size=2 was spec.size=1 with 500",)
    ]


def test_the_request_of_a_patch_is_named_by_the_object_before():
    calm = [record([write(1, "patch", "things", "default/a", tree("a", n=2), tree("a", n=1))])] * 2
    assert lines(calm, "early") == [("kill op before request op patch things default/a was n=1",)]


def test_equal_writes_are_counted_and_only_three_of_them_perturbed():
    calm = [record([write(step, "create", "things", "default/a") for step in range(5)])] * 2
    assert [each[0].rpartition("default/a")[2] for each in lines(calm, "crash")] == [
        "",
        " #2",
        " #3",
    ]


def test_what_is_not_in_all_runs_or_without_effect_or_background_is_left_out():
    common = write(1, "create", "things", "default/a")
    other = [
        write(2, "create", "things", "default/random-17"),
        write(3, "update", "things", "default/a", effective=False),
        write(4, "update", "leases", "default/lock"),
        write(5, "create", "events", "default/e"),
    ]
    calm = [record([common, *other]), record([common])]
    assert lines(calm, "crash") == [("kill op before answer op create things default/a",)]


def test_generated_names_are_meant_by_their_prefix():
    made = tree("web-x1")
    made["metadata"]["generateName"] = "web-"
    calm = [
        record(
            [write(1, "delete", "pods", "default/web-x1", made, made)],
            [Change(1, "pods", "default/web-x1", made)],
        )
    ] * 2
    assert lines(calm, "crash") == [
        ("kill op before answer op delete pods 'default/web-*'",)
    ] or lines(calm, "crash") == [("kill op before answer op delete pods default/web-*",)]


def test_a_deletion_that_is_undone_later_is_tried_with_the_state_that_led_to_it():
    gone = tree("a", spec={"n": 1})
    marked = tree("a", spec={"n": 2})
    book = tree("a-book", uid="b1")
    calm = [
        record(
            [
                event(1, "MODIFIED", "shelves", "default/a", marked, gone, revision=5),
                write(2, "delete", "configmaps", "default/a-book", book, book),
            ],
            [
                Change(2, "configmaps", "default/a-book", book),
                Change(6, "configmaps", "default/a-book", None, book),
                Change(9, "configmaps", "default/a-book", tree("a-book", uid="b2")),
            ],
        )
    ] * 2
    ((freeze, kill),) = lines(calm, "stale")
    event_ = "event op MODIFIED shelves default/a where spec.n=2 was spec.n=1"
    back = "answer * create configmaps default/a-book"
    assert freeze == (
        f"freeze op shelves from {back} as of {event_}"
        " until answer op delete configmaps default/a-book at most 30"
    )
    assert kill == f"kill op after {back} once {event_}"


def test_states_between_two_changes_from_elsewhere_are_swallowed():
    trees = [tree("a", n=number) for number in range(3)]
    calm = [
        record(
            [
                event(1, "ADDED", "things", "default/a", trees[0], None, 1),
                event(2, "MODIFIED", "things", "default/a", trees[1], trees[0], 2),
                event(3, "MODIFIED", "things", "default/a", trees[2], trees[1], 3),
            ]
        )
    ] * 2
    assert lines(calm, "swallow")[1] == (
        "swallow event op MODIFIED things default/a where n=1 was n=0"
        " until event op MODIFIED things default/a where n=2 at most 30",
    )


def test_every_made_plan_can_be_read():
    one, two = tree("a", labels={"x.io/a b": "c d"}, n=1), tree("a", labels={"x.io/a b": "'"}, n=2)
    calm = [
        record(
            [
                event(1, "MODIFIED", "things", "default/a", two, one),
                write(2, "update", "things/status", "default/a", two, one),
                write(3, "create", "things", "default/b", one),
            ]
        )
    ] * 2
    for each in candidates(calm):
        assert str(parse(str(each))) == str(each)


# ---------------------------------------------------------------------- judgement


def things(**fields):
    return {("things", "default/a"): tree("a", **fields)}


def texts(found):
    return [str(each) for each in found]


def judged(calm, perturbed, ignored=()):
    return texts(alarms_of(perturbed, reference_of(calm, ignored), calm))


def test_a_field_that_differs_at_the_end_is_an_alarm_unless_it_varies_without_faults():
    calm = [record(objects=things(n=1, t=k, at=f"2026-01-01T00:00:0{k}Z")) for k in (1, 2)]
    assert judged(calm, record(objects=things(n=1, t=9, at="2027-01-01T00:00:00Z"))) == []
    found = judged(calm, record(objects=things(n=2, t=1, at="2026-01-01T00:00:01Z")))
    assert found == ["end state: things default/a: n is 2 at the end, expected 1"]
    assert judged(calm, record(objects=things(n=2)), ["n", "at", "t"]) == []
    assert judged(calm, record(objects=things(n=2)), ["things default/*"]) == []


def test_generated_parts_of_names_and_values_are_not_compared():
    def run(hashed, suffix):
        pod = tree(
            f"web-{suffix}",
            spec={"volumes": [{"name": f"access-{suffix}"}], "host": f"web-{suffix}"},
        )
        pod["metadata"]["generateName"] = "web-"
        made = tree(f"worker-{hashed}")
        objects = {
            ("pods", f"default/web-{suffix}"): pod,
            ("things", f"default/worker-{hashed}"): made,
        }
        return record(objects=objects)

    calm = [run("8f3b19bee6", "q46cl"), run("95c00c9fbe", "q46cl")]
    assert judged(calm, run("1234abcd99", "tnlr8")) == []
    further = run("1234abcd99", "tnlr8")
    further.objects["things", "default/worker-77aa77aa77"] = tree("worker-77aa77aa77")
    assert judged(calm, further) == [
        "end state: things default/worker-* is there 2 times, expected 1 at the end"
    ]


def test_runs_without_faults_that_end_otherwise_are_an_alarm():
    kind = [
        Change(1, "customresourcedefinitions", "things.example.com", tree("things.example.com"))
    ]
    calm = [
        record(changes=kind, objects=things(status={"phase": phase}))
        for phase in ("Running", "Pending")
    ]
    assert texts(calm_alarms(calm)) == [
        "divergence: things default/a: status.phase ends as Pending or Running"
    ]


def test_a_missing_or_further_object_is_an_alarm():
    calm = [record(objects=things(n=1))] * 2
    assert judged(calm, record()) == ["end state: things default/a is missing at the end"]
    more = {**things(n=1), ("things", "default/b"): tree("b")}
    assert judged(calm, record(objects=more)) == [
        "end state: things default/b is there at the end, and was not without the fault"
    ]


def test_objects_made_and_removed_more_often_are_an_alarm_but_not_where_states_were_not_seen():
    once = [Change(1, "things", "default/a", tree("a"))]
    twice = [
        *once,
        Change(2, "things", "default/a", None, tree("a")),
        Change(3, "things", "default/a", tree("a")),
    ]
    calm = [record(changes=once)] * 2
    assert judged(calm, record(changes=twice)) == [
        "history: things default/a: created 2 times and deleted 1 times, expected 1 and 0"
    ]
    assert (
        judged(calm, evolve(record(changes=twice), plan=("swallow event op * things until ...",)))
        == []
    )


def test_a_step_that_fails_an_exit_a_panic_and_no_rest_are_alarms():
    calm = [record()] * 2
    bad = record(exits=(("p", 2),), outputs=(("p", "x\npanic: boom\n"),), settled=False)
    bad = evolve(
        bad,
        steps=(
            StepResult("wait things a", "did not come true"),
            StepResult("w", "held by the plan"),
        ),
    )
    assert judged(calm, bad) == [
        "workload: step 1, wait things a: did not come true",
        "panic: p: panic: boom",
        "exit: p: the process ended by itself, exit code 2, after it printed: panic: boom",
        "no rest: the run did not come to rest",
    ]
    assert len(calm_alarms([bad, bad])) == 4


def test_writes_without_effect_again_and_again_are_a_hot_loop():
    noop = write(1, "update", "things", "default/a", effective=False)
    calm = [record([noop] * 5)] * 2
    assert judged(calm, record([noop] * 30)) == []
    assert judged(calm, record([noop] * 40)) == [
        "hot loop: things default/a: 40 writes without effect"
    ]


def test_a_deletion_decided_by_an_older_object_of_the_name_is_an_alarm():
    new = tree("a", uid="new")
    told = Passing(
        EVENT, "op", "apiserver", "ADDED", "things", "default/a", tree("a", uid="old"), uid="old"
    )
    gone = write(2, "delete", "things", "default/a", new, new)
    assert judged([record()] * 2, record([Seen(told, 1, 0), gone])) == [
        "older uid: things default/a was deleted by a decision about an older object of the name"
    ]


def test_an_operators_own_objects_are_not_compared():
    owner = {"metadata": {"name": "d", "uid": "d"}}
    pod = {"metadata": {"name": "p", "uid": "p", "ownerReferences": [{"uid": "d"}]}}
    family = family_of([owner, pod], ["p"])
    assert family == {"d", "p"}
    objects = {("pods", "ops/p"): pod, ("deployments", "ops/d"): owner}
    assert judged([record()] * 2, record(objects=objects, family=family)) == []


def test_an_alarm_that_does_not_repeat_is_dropped_and_a_campaign_goes_on_where_it_was():
    calm = [record([write(1, "create", "things", "default/a")], objects=things(n=1))] * 2
    campaign = Campaign(calm)
    first = campaign.next()
    bad, good = record(objects=things(n=2)), record(objects=things(n=1))
    alarms = campaign.take(first, bad)
    assert campaign.confirm(first, alarms, [bad, good, good]) is None
    second = campaign.next()
    alarms = campaign.take(second, bad)
    finding = campaign.confirm(second, alarms, [bad, bad, good])
    assert finding.rate == "2 of 3"
    third = campaign.next()
    assert campaign.take(third, bad) == []  # known by now
    assert finding.also == [str(third)]
    resumed = Campaign(calm, tried=campaign.state())
    assert str(resumed.next()) not in {str(each) for each in (first, second, third)}


def test_the_pace_follows_what_runs_without_faults_showed():
    fast = [record(longest_gap_s=0.01, longest_pause_s=0.005)] * 2
    slow = [record(longest_gap_s=2.5, longest_pause_s=0.1)] * 2
    assert pace_of(fast).settle_s < pace_of(slow).settle_s
    assert pace_of(slow).quiet_s >= 0.1
    assert pace_of(slow, 0.7).settle_s == 0.7
