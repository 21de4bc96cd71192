"""Test plans of Sieve: what each of their words becomes."""

from __future__ import annotations

import json

import pytest

from controlplane.errors import UsageError
from controlplane.operators.sieve import imported, plurals_of, read_file
from controlplane.scenarios.plans.language import parse

KEY = "shelf/default/a"
PLURALS = {"shelf": "shelves"}


def trigger(form, key=KEY, when="afterControllerWrite", **told):
    condition = {"conditionType": form, "resourceKey": key, "occurrence": 1, **told}
    return {
        "definitions": [
            {"triggerName": "t", "condition": condition, "observationPoint": {"when": when}}
        ],
        "expression": "t",
    }


def timeout(seconds):
    return {
        "definitions": [
            {
                "triggerName": "t",
                "condition": {"conditionType": "onTimeout", "timeoutValue": seconds},
            }
        ]
    }


def lines(*actions):
    found = imported({"workload": "w", "actions": list(actions)}, PLURALS)
    parse("\n".join(found).replace("{operator}", "op"))
    return found


def diff(before, after):
    return {"prevStateDiff": json.dumps(before), "curStateDiff": json.dumps(after)}


def test_a_restart_after_a_write():
    restart = {
        "actionType": "restartController",
        "trigger": trigger("onObjectCreate", occurrence=2),
    }
    assert lines(restart) == (
        "kill {operator} before answer {operator} create shelves default/a #2",
    )
    told = diff(
        {"spec": {"n": 1}}, {"spec": {"n": 2}, "metadata": {"labels": {"x.io/y": "SIEVE-NON-NIL"}}}
    )
    restart = {"actionType": "restartController", "trigger": trigger("onObjectUpdate", **told)}
    assert lines(restart) == (
        "kill {operator} before answer {operator} * shelves* default/a where spec.n=2 was spec.n=1"
        r" where 'metadata.labels.x\.io/y' was '!metadata.labels.x\.io/y'",
    )


@pytest.mark.parametrize(
    ("when", "word"), [("afterAPIServerRecv", ""), ("beforeAPIServerRecv", "before ")]
)
def test_a_restart_against_a_server_that_lags(when, word):
    pause = {
        "actionType": "pauseAPIServer",
        "pauseScope": KEY,
        "trigger": trigger(
            "onObjectUpdate", when=when, **diff({"spec": {"n": 1}}, {"spec": {"n": 2}})
        ),
    }
    reconnect = {
        "actionType": "reconnectController",
        "trigger": trigger("onObjectCreate", "persistentvolumeclaim/default/d"),
    }
    found = lines(pause, reconnect, {"actionType": "resumeAPIServer", "trigger": timeout(15)})
    event = "event {operator} MODIFIED shelves default/a where spec.n=2 was spec.n=1"
    assert found == (
        "freeze {operator} shelves from answer * create persistentvolumeclaims default/d"
        f" as of {word}{event} for 15",
        f"kill {{operator}} after answer * create persistentvolumeclaims default/d once {event}",
    )


def test_a_state_that_is_not_seen():
    pause = {
        "actionType": "pauseController",
        "pauseAt": "beforeControllerRead",
        "trigger": trigger("onObjectUpdate", **diff({"spec": {"n": 1}}, {"spec": {"n": 3}})),
    }
    resume = {
        "actionType": "resumeController",
        "trigger": trigger("onAnyFieldModification", prevStateDiff='{"spec": {"n": 3}}'),
    }
    assert lines(pause, resume) == (
        "swallow event {operator} MODIFIED shelves default/a where spec.n=3 was spec.n=1"
        " until event {operator} * shelves default/a where spec.n!=3 at most 20",
    )


def test_an_answer_that_is_held():
    pause = {
        "actionType": "pauseController",
        "pauseAt": "afterControllerWrite",
        "trigger": trigger("onObjectDelete"),
    }
    assert lines(pause, {"actionType": "resumeController", "trigger": timeout(3)}) == (
        "hold answer {operator} delete shelves default/a until event {operator} * shelves default/a at most 3",
    )


def test_a_plan_without_actions_is_no_plan():
    assert imported({"workload": "w", "actions": None}) == ()


@pytest.mark.parametrize(
    ("actions", "told"),
    [
        ("x", "actions: expected a list"),
        (
            [{"actionType": "stop"}],
            r"actions\[0\].actionType: 'stop': expected one of restartController",
        ),
        (
            [{"actionType": "pauseController", "trigger": trigger("onObjectDelete")}],
            "expected resumeController",
        ),
        (
            [{"actionType": "restartController", "trigger": trigger("onAnnotatedAPICall")}],
            "onAnnotatedAPICall",
        ),
        (
            [{"actionType": "restartController", "trigger": trigger("onObjectCreate", "a")}],
            "type/namespace/name",
        ),
    ],
)
def test_a_mistake_names_its_field(actions, told, tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(json.dumps({"workload": "w", "actions": actions}))
    with pytest.raises(UsageError, match=told):
        read_file(path)


def test_plurals_come_from_definitions():
    names = {"plural": "elasticsearches", "kind": "Elasticsearch"}
    assert plurals_of(
        [{"kind": "CustomResourceDefinition", "spec": {"names": names}}, {"kind": "Pod"}]
    ) == {"elasticsearch": "elasticsearches"}
