"""Invariants in CEL: asked at each revision or at rest, for the cluster or for each object of a kind."""

from __future__ import annotations

import pytest

from controlplane.apiserver.kinds.custom.cel import CelError
from controlplane.scenarios.authoring import expressions
from controlplane.scenarios.authoring.declared import scenario_in
from controlplane.scenarios.authoring.words import WORDS
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of

POD = "{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: main, image: i}]}}"
TEXT = """
scenario: rules
world: scheduler-alone
users:
  user:
    - create: %s
    - create: %s
    - wait-for: {kind: Pod, count: 2}
    - delete: Pod/b
    - wait-for: {object: Pod/b, deleted: true}
invariants:
  - %s
"""


def ran(invariant: str, **asked):
    text = TEXT % (POD % "a", POD % "b", invariant)
    run = Execution(plan_of(scenario_in(text, "mine.yaml"), **asked))
    return run.execute("bare")


@pytest.mark.parametrize(
    ("invariant", "reason"),
    [
        ("{name: few, rule: pods.size() <= 1}", "few: pods.size() <= 1 is false"),
        ("{name: few, rule: pods.size() <= 1, at: rest}", ""),
        ("{name: few, rule: pods.size() <= 2}", ""),
        ("{name: none, rule: pods.size() == 0, at: rest}", "none: pods.size() == 0 is false"),
        ("{name: named, for: Pod, rule: self.metadata.name == 'a'}", "named: Pod/default/b: self.meta"),
        ("{name: named, for: Pod, rule: self.metadata.name == 'a', at: rest}", ""),
        (
            "{name: placed, for: Pod, at: rest, rule: 'nodes.exists(n, n.metadata.name == self.spec.nodeName)'}",
            "",
        ),
        ("{name: bare, for: Pod, rule: self.spec.nodeName != ''}", "cannot be evaluated: no such key"),
        (
            "{name: all, rule: 'pods.all(p, !has(p.spec.nodeName) || p.spec.nodeName.startsWith(\"node-\"))'}",
            "",
        ),
    ],
)  # fmt: skip
def test_a_rule_is_asked_when_it_says(invariant, reason):
    result = ran(invariant)
    if reason:
        assert result.verdict == "violated"
        assert reason in result.reason
    else:
        assert result.verdict == "quiescent", result.reason


def test_a_rule_is_asked_after_writes_through_every_server():
    invariant = "{name: few, rule: pods.size() <= 1}"
    assert ran(invariant, apiservers=3).verdict == "violated"


def test_every_built_in_resource_is_a_variable_and_every_kind_can_be_asked():
    for name in expressions.resources():
        expressions.invariant("x", f"{name}.size() >= 0")
    for kind in expressions.kinds():
        expressions.invariant("x", "has(self.metadata)", kind)
    with pytest.raises(ValueError, match="no built-in kind 'Pdo'; did you mean Pod"):
        expressions.invariant("x", "true", "Pdo")
    with pytest.raises(CelError, match="no variable 'deploymnts'; did you mean deployments"):
        expressions.invariant("x", "deploymnts.size() > 0")


def test_what_a_user_waits_for_in_vain_ends_the_run_as_failed():
    text = TEXT % (POD % "a", POD % "b", "scheduling queue")
    text = text.replace("count: 2", "count: 3, timeout: 7")
    run = Execution(plan_of(scenario_in(text, "mine.yaml")))
    result = run.execute("bare")
    assert result.verdict == "failed"
    assert "wait-for 3 of Pod: not within 7 s" in result.reason
    assert run.world.now == 7_000_000_000


@pytest.mark.parametrize("word", WORDS)
def test_the_examples_of_the_reference_are_read(word):
    text = f"scenario: x\nusers:\n  user:\n    - {WORDS[word].example}\ninvariants: [scheduling queue]\n"
    scenario_in(text, "mine.yaml")
