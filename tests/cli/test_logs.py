"""`controlplane logs why` on what `run --out` left."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.cli.test_run import controlplane


def pod(name, cpu):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container]},
    }


def test_why_tells_which_plugin_refused_which_node_at_which_attempt(tmp_path):
    manifest = tmp_path / "pods.yaml"
    manifest.write_text(yaml.safe_dump_all([pod("big", "100"), pod("small", "1")]))
    out = tmp_path / "out"
    assert controlplane("run", manifest, "--out", out).returncode == 0

    told = controlplane("logs", "why", "pod/default/big", "--log", out)
    assert told.returncode == 0, told.stderr
    assert (
        "NodeResourcesFit refused 3 nodes (Insufficient cpu): node-1, node-2, node-3" in told.stdout
    )

    told = controlplane("logs", "why", "po/small", "--log", out, "--format", "json")
    events = json.loads(told.stdout)["events"]
    (chosen,) = [each for each in events if each["event"] == "scheduler.assumed"]
    assert chosen["node"] in chosen["scores"]

    unknown = controlplane("logs", "why", "po/none", "--log", out)
    assert (unknown.returncode, unknown.stderr) == (
        2,
        "controlplane: pod/default/none: the log says nothing about it;"
        " did you mean Pod/default/big or Pod/default/small?\n",
    )


@pytest.mark.parametrize("content", [b"objects: []\n", b"\x8b\xa6format\xff\n", b'{"step": 1}\n'])
def test_a_file_that_is_no_log_is_refused(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    told = controlplane("logs", "why", "pod/default/p", "--log", path)
    assert (told.returncode, told.stderr) == (
        2,
        f"controlplane: {path}, line 1: expected an event of a log (a JSON object)\n",
    )


def test_the_published_schema_tells_every_events_data():
    told = json.loads(controlplane("logs", "schema").stdout)
    names = [each["if"]["properties"]["event"]["const"] for each in told["events"]["allOf"]]
    assert {"apiserver.write", "scheduler.failed", "fault"} <= set(names)
    assert told["line"]["required"] == ["actor", "event", "run", "step", "t", "task"]
