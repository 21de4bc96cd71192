"""Stages whose templates render to something else than a patch: an event tells it, and the world goes on."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_run import controlplane

STAGE = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {{name: odd}}
spec:
  resourceRef: {{apiGroup: v1, kind: ConfigMap}}
  selector: {{matchLabels: {{odd: "yes"}}}}
  steps:
    - {}
"""
OBJECT = """
apiVersion: v1
kind: ConfigMap
metadata: {name: a, labels: {odd: "yes"}}
"""


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ('patch: {type: json, template: "text"}', "does not render to an array of operations"),
        ('patch: {type: strategic, template: "[1]"}', "does not render to an object"),
        ("patch: {template: '{{ fail \"sorry\" }}'}", "sorry"),
        ('apply: {template: "a: 1"}', "template must include apiVersion and kind"),
        ('apply: {template: "{apiVersion: v1, kind: Nope}"}', "no matches for kind"),
    ],
)
def test_an_event_tells_it_and_the_world_goes_on(step, told, tmp_path):
    (tmp_path / "stage.yaml").write_text(STAGE.format(step))
    (tmp_path / "object.yaml").write_text(OBJECT)
    out = tmp_path / "out"
    done = controlplane(
        "run", tmp_path / "object.yaml", "--nodes", 0, "--with", "kwok",
        "--stages", tmp_path / "stage.yaml", "--out", out, "--format", "json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "quiescent"
    written = " ".join((out / "objects.yaml").read_text().split())  # long texts are folded
    assert told in written
