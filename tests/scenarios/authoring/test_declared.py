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
    - sleep: 5
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
    } <= writes
    faults = [e.data["fault"] for e in run.world.log if e.event == "fault"]
    for operation in ("crash", "restart", "cut", "heal", "delay", "lose", "break"):
        assert operation in faults, operation
    assert faults.count("cut") == 2
    assert not run.objects("/registry/pods/")


def test_the_example_finds_the_first_race_and_nothing_with_the_fix():
    scenario = loading.from_file(EXAMPLE)
    found = Campaign(plan_of(scenario, without_fix=["138324"])).explore(200)
    assert "in flight for ever" in found.findings[0].result.reason
    assert not Campaign(plan_of(scenario)).explore(60).findings


BAD = {
    "no mapping": ("- a\n", "expected one mapping"),
    "broken YAML": ("a: [\n", "mine.yaml:"),
    "no name": ("users: {}\n", "mine.yaml:1: scenario: None: expected text"),
    "an unknown key": (
        "scenario: x\ncolour: red\n",
        "mine.yaml:2: colour: unknown; known: scenario",
    ),
    "an unknown world": (
        "scenario: x\nworld: flat\n",
        "mine.yaml:2: world: 'flat': expected whole or",
    ),
    "no users": ("scenario: x\n", "users: None: expected a mapping"),
    "an unknown word": (
        "scenario: x\nusers:\n  user:\n    - sleep: 1\n    - fly: high\n",
        "mine.yaml:5: users.user[1].fly: unknown word; known: apply, at-point, break_link, ",
    ),
    "a point of nobody": (
        "scenario: x\nusers:\n  user:\n    - at-point: {point: recv, do: [point]}\n",
        "mine.yaml:4: users.user[0].at-point.actor: None: expected text",
    ),
    "a point with more": (
        "scenario: x\nusers:\n  user:\n    - at-point: {actor: a, point: b, then: []}\n",
        "mine.yaml:4: users.user[0].at-point.then: unknown; known: actor, point, nth, do",
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
        "mine.yaml:3: invariants[0]: 'world peace' is not known; known: scheduling queue, ",
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
