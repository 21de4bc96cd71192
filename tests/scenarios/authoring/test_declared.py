"""Scenarios in YAML: every word does what the user's method does, and every mistake is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors import EventLog
from controlplane.errors import UsageError
from controlplane.scenarios.authoring.declared import FLOW, WORDS, scenario_in
from controlplane.scenarios.authoring.faults import OPERATIONS
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import loading
from controlplane.scenarios.search.exploring import Campaign

EXAMPLE = Path(__file__).parents[3] / "examples" / "recreated_pod.yaml"
POD = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: main, image: i}]}}"
DEPLOYMENT = (
    "{apiVersion: apps/v1, kind: Deployment, metadata: {name: many}, spec: {selector: {matchLabels: {a: b}},"
    " template: {metadata: {labels: {a: b}}, spec: {containers: [{name: main, image: i}]}}}}"
)
EVERY_WORD = f"""
scenario: every word
defaults: {{nodes: 2}}
users:
  user:
    - sleep: 5
    - point
    - point: mine
    - create: {POD}
    - apply: {POD}
    - wait-for: {{object: Pod/web, condition: Ready, timeout: 60}}
    - label: {{object: Pod/web, labels: {{app: web, old: null}}}}
    - annotate: {{object: Node/node-1, annotations: {{note: seen}}}}
    - wait-for: {{kind: Pod, labels: {{app: web}}, namespace: default, count: 1}}
    - wait-for: {{object: Pod/web, field: status.containerStatuses.0.ready, is: true}}
    - wait-for: {{object: Pod/web, field: spec.nodeName}}
    - wait-for: {{object: Pod/none, deleted: true}}
    - apply: {DEPLOYMENT}
    - scale: {{object: Deployment/many, replicas: 2}}
    - wait-for: {{object: Deployment/many, condition: Available=True}}
    - wait-for: {{object: Deployment/many, field: status.readyReplicas, is: 2}}
    - scale: {{object: Deployment/many, replicas: 0}}
    - resize: {{pod: web, container: main, cpu: 100m}}
    - patch: {{object: Pod/default/web, patch: {{metadata: {{labels: {{a: b}}}}}}}}
    - recreate: Pod/web
    - evict: web
    - wait-gone: Pod/web
    - delete: Pod/none
    - cordon: node-1
    - uncordon: node-1
    - drain: node-2
    - one-of: [[{{crash: other}}, {{restart: other}}]]
    - maybe: [point]
    - repeat: {{times: 2, do: [{{cut: [user, apiserver]}}, {{heal: [user, apiserver]}}]}}
    - at-point: {{actor: other, point: mine, nth: 2, do: [{{sleep: 1}}]}}
    - delay: [user, apiserver, 1]
    - heal: [user, apiserver]
    - break_link: [user, apiserver]
    - lose: [node-1, apiserver]
  other:
    - repeat: {{times: 99, do: [{{sleep: 1}}, {{point: mine}}]}}
faults:
  - {{do: {{crash: scheduler}}, then: {{restart: scheduler}}, times: 2, lasts: [0.5]}}
invariants: [scheduling queue, every pod gets a node]
"""


def test_the_text_above_has_every_word():
    for word in (*FLOW, *WORDS, *OPERATIONS):
        assert f"- {word}" in EVERY_WORD or f"{{{word}:" in EVERY_WORD, word


def test_every_word_is_carried_out():
    run = Execution(plan_of(scenario_in(EVERY_WORD, "words.yaml")), log=EventLog())
    result = run.execute("bare")
    assert result.verdict == "quiescent", (result.reason, run.traceback)
    writes = {e.data["verb"] for e in run.world.log if e.event == "apiserver.write"}
    assert {
        "create pods",
        "patch pods/resize",
        "patch pods",
        "create pods/eviction",
        "delete pods",
        "patch nodes",
        "patch deployments/scale",
    } <= writes
    faults = [e.data["fault"] for e in run.world.log if e.event == "fault"]
    for operation in ("crash", "restart", "cut", "heal", "delay", "lose", "break"):
        assert operation in faults, operation
    assert faults.count("cut") == 2
    assert not run.objects("/registry/pods/")


@pytest.mark.slow
def test_the_example_finds_the_first_race_and_nothing_with_the_fix():
    scenario = loading.from_file(EXAMPLE)
    found = Campaign(plan_of(scenario, without_fix=["138324"])).explore(200)
    assert "in flight for ever" in found.findings[0].result.reason
    assert not Campaign(plan_of(scenario)).explore(60).findings


ROLLOUT = EXAMPLE.parent / "rollout.yaml"


def test_the_examples_in_yaml_are_those_tested_here():
    found = [path for path in EXAMPLE.parent.glob("*.yaml") if "\nscenario:" in path.read_text()]
    assert sorted(found) == sorted((EXAMPLE, ROLLOUT))


@pytest.mark.slow
def test_a_rollout_keeps_to_its_strategy_and_a_stricter_rule_breaks():
    scenario = loading.from_file(ROLLOUT)
    assert not Campaign(plan_of(scenario)).explore(4).findings
    strict = ROLLOUT.read_text().replace(".sum() <= 4", ".sum() <= 3")
    (found,) = Campaign(plan_of(scenario_in(strict, "strict.yaml"))).explore(1).findings
    assert "no more pods than the strategy allows: " in found.result.reason


BAD = {
    "no mapping": ("- a\n", "expected one mapping"),
    "broken YAML": ("a: [\n", "mine.yaml:"),
    "no name": ("users: {}\n", "mine.yaml:1: scenario: None: expected text"),
    "an unknown key": (
        "scenario: x\ncolour: red\n",
        "mine.yaml:2: colour: no key 'colour'; known: scenario",
    ),
    "an unknown controller": (
        "scenario: x\ncontrollers: [statefulsets]\nusers: {u: [{sleep: 1}]}\n"
        "invariants: [every pod gets a node]\n",
        "mine.yaml:2: controllers: no controller 'statefulsets'; did you mean statefulset",
    ),
    "an unknown world": (
        "scenario: x\nworld: flat\n",
        "mine.yaml:2: world: no world 'flat'; known: whole",
    ),
    "no users": ("scenario: x\n", "users: None: expected a mapping"),
    "an unknown word": (
        "scenario: x\nusers:\n  user:\n    - sleep: 1\n    - fly: high\n",
        "mine.yaml:5: users.user[1].fly: no word 'fly'; known: annotate, apply, at-point, ",
    ),
    "a point of nobody": (
        "scenario: x\nusers:\n  user:\n    - at-point: {point: recv, do: [point]}\n",
        "mine.yaml:4: users.user[0].at-point.actor: None: expected text",
    ),
    "a point with more": (
        "scenario: x\nusers:\n  user:\n    - at-point: {actor: a, point: b, then: []}\n",
        "mine.yaml:4: users.user[0].at-point.then: no key 'then'; known: actor, point, nth, do",
    ),
    "two words": (
        "scenario: x\nusers:\n  user:\n    - {sleep: 1, point: x}\n",
        "mine.yaml:4: users.user[0]: expected one word and what it is about",
    ),
    "no seconds": (
        "scenario: x\nusers:\n  user:\n    - sleep: long\n",
        "mine.yaml:4: users.user[0].sleep: 'long': expected seconds",
    ),
    "no object": (
        "scenario: x\nusers:\n  user:\n    - delete: web\n",
        "mine.yaml:4: users.user[0].delete: 'web': expected KIND/NAME or KIND/NAMESPACE/NAME",
    ),
    "no tree": (
        "scenario: x\nusers:\n  user:\n    - create: {kind: Pod}\n",
        "mine.yaml:4: users.user[0].create.apiVersion: None: expected text",
    ),
    "a fault without operation": (
        "scenario: x\nusers: {u: [point]}\nfaults:\n  - {times: 2}\n",
        "mine.yaml:4: faults[0]: expected `do`, with an operation",
    ),
    "wrong arguments": (
        "scenario: x\nusers:\n  user:\n    - cut: apiserver\n",
        "mine.yaml:4: users.user[0].cut: 'apiserver': not what cut takes",
    ),
    "nothing to hold": (
        "scenario: x\nusers: {u: [point]}\ninvariants: []\n",
        "mine.yaml:3: invariants: expected at least one",
    ),
    "an unknown invariant": (
        "scenario: x\nusers: {u: [point]}\ninvariants: [world peace]\n",
        "mine.yaml:3: invariants[0]: no invariant 'world peace'",
    ),
    "a word with a slip": (
        "scenario: x\nusers:\n  user:\n    - creat: {}\n",
        "mine.yaml:4: users.user[0].creat: no word 'creat'; did you mean create",
    ),
    "an unknown operation": (
        "scenario: x\nusers: {u: [point]}\nfaults:\n  - do: {crahs: a}\n",
        "mine.yaml:4: faults[0].do.crahs: no operation 'crahs'; did you mean crash?",
    ),
    "an unknown kind": (
        "scenario: x\nusers:\n  user:\n    - delete: Pdo/web\n",
        "mine.yaml:4: users.user[0].delete: no built-in kind 'Pdo'; did you mean Pod",
    ),
    "nothing to wait for": (
        "scenario: x\nusers:\n  user:\n    - wait-for: {object: Pod/web}\n",
        "mine.yaml:4: users.user[0].wait-for: expected one of condition, field, deleted, count",
    ),
    "two things to wait for": (
        "scenario: x\nusers:\n  user:\n    - wait-for: {object: Pod/a, deleted: true, field: b}\n",
        "mine.yaml:4: users.user[0].wait-for: expected one of",
    ),
    "a value without a field": (
        "scenario: x\nusers:\n  user:\n    - wait-for: {object: Pod/a, condition: B, is: 1}\n",
        "mine.yaml:4: users.user[0].wait-for.is: only with field",
    ),
    "a count of one object": (
        "scenario: x\nusers:\n  user:\n    - wait-for: {object: Pod/a, kind: Pod, count: 1}\n",
        "mine.yaml:4: users.user[0].wait-for.object: not with count",
    ),
    "a label that is a number": (
        "scenario: x\nusers:\n  user:\n    - label:\n        object: Pod/a\n        labels: {b: 1}\n",
        "mine.yaml:6: users.user[0].label.labels.b: 1: expected text, or null to remove it",
    ),
    "a negative scale": (
        "scenario: x\nusers:\n  user:\n    - scale: {object: Deployment/a, replicas: -1}\n",
        "mine.yaml:4: users.user[0].scale.replicas: -1: expected a whole number of 0 or more",
    ),
    "a rule that does not compile": (
        "scenario: x\nusers: {u: [point]}\ninvariants:\n  - name: a\n    rule: pods.size( <= 1\n",
        "mine.yaml:5: invariants[0].rule: ",
    ),
    "a rule about nothing": (
        "scenario: x\nusers: {u: [point]}\ninvariants:\n  - {name: a, rule: pdos.size() < 1}\n",
        "mine.yaml:4: invariants[0].rule: no variable 'pdos'; did you mean pods",
    ),
    "a rule without a verdict": (
        "scenario: x\nusers: {u: [point]}\ninvariants:\n  - {name: a, rule: pods.size()}\n",
        "mine.yaml:4: invariants[0].rule: expected a rule that gives bool, found int",
    ),
    "self without a kind": (
        "scenario: x\nusers: {u: [point]}\ninvariants:\n  - {name: a, rule: has(self.spec)}\n",
        "mine.yaml:4: invariants[0].rule: no variable 'self'",
    ),
    "an unknown moment": (
        "scenario: x\nusers: {u: [point]}\ninvariants:\n  - {name: a, rule: 'true', at: dawn}\n",
        "mine.yaml:4: invariants[0].at: 'dawn': expected revision or rest",
    ),
    "an unknown default": (
        "scenario: x\nusers: {u: [point]}\ninvariants: [scheduling queue]\ndefaults: {colour: 1}\n",
        "mine.yaml:4: defaults: scenario 'x': defaults: no common option 'colour'",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_mistake_is_one_line_that_names_file_line_and_field(name, tmp_path):
    text, message = BAD[name]
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        loading.from_file(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
