"""The file that describes an operator: what it means, and mistakes in it."""

from __future__ import annotations

import pytest

from controlplane.errors import UsageError
from controlplane.operators.description import APPLY, DELETE, PATCH, SLEEP, WAIT, Target, read

GOOD = """
manifests: [all.yaml]
processes:
  - image: example.com/op:*
    command: python3 -m op --flag
    env: {A: 1}
workload:
  - apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
  - wait: deployments web where status.readyReplicas=2 where !metadata.deletionTimestamp at most 3
  - patch: {object: configmaps other/a, with: {data: {x: y}}}
  - wait: no configmaps a
  - delete: configmaps a
  - sleep: 5
ignore: [status.conditions]
"""


@pytest.fixture
def written(tmp_path):
    (tmp_path / "all.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n")

    def write(text):
        path = tmp_path / "op.yaml"
        path.write_text(text)
        return path

    return write


def test_a_description_is_read(written):
    found = read(written(GOOD))
    assert found.name == "op"
    assert found.processes[0].command == ("python3", "-m", "op", "--flag")
    assert found.processes[0].env == (("A", "1"),)
    assert [each.action for each in found.workload] == [APPLY, WAIT, PATCH, WAIT, DELETE, SLEEP]
    wait, patch, gone = found.workload[1:4]
    assert wait.target == Target("deployments", "default", "web")
    assert wait.seconds == 3
    assert all(
        each.met_by({"status": {"readyReplicas": 2}, "metadata": {}}) for each in wait.conditions
    )
    assert patch.target == Target("configmaps", "other", "a")
    assert gone.absent
    assert str(gone) == "wait no configmaps default/a"


@pytest.mark.parametrize(
    ("old", "new", "line", "told"),
    [
        ("manifests:", "manifest:", 2, "manifest: 'manifest': expected one of name, manifests"),
        ("all.yaml", "none.yaml", 2, "manifests[0]: 'none.yaml': expected a file or folder"),
        ("command:", "comand:", 5, "processes[0].comand: 'comand': expected one of image"),
        ("- sleep: 5", "- sleep: x", 13, "workload[5].sleep: 'x': expected a number"),
        ("- sleep: 5", "- snooze: 5", 13, "expected one of apply, patch, delete, wait, sleep"),
        (
            "delete: configmaps a",
            "delete: a",
            12,
            "workload[4].delete: 'a': expected RESOURCE NAME",
        ),
        ("at most 3", "at most x", 9, "workload[1].wait: 'x': expected a number of seconds"),
        ("image: example.com/op:*", "image: ''", 4, "processes[0].image: '': expected an image"),
    ],
)
def test_a_mistake_is_one_line_with_file_line_and_field(written, old, new, line, told):
    with pytest.raises(UsageError) as error:
        read(written(GOOD.replace(old, new)))
    text = str(error.value)
    assert f"op.yaml:{line}: " in text
    assert told in text
    assert "\n" not in text


def test_what_is_no_yaml_is_told(written):
    with pytest.raises(UsageError, match="not YAML"):
        read(written("a: [b"))
