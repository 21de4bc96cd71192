"""Refusals that name their field in words only are traced to the line all the same."""

import pytest

from controlplane.scenarios.inputs.locating import field_of
from controlplane.scenarios.inputs.manifests import load_text
from controlplane.scenarios.inputs.reading import Submission
from controlplane.scenarios.inputs.submission import preflight

POD = """apiVersion: v1
kind: Pod
metadata:
  name: a
spec:
"""
CONTAINERS = """  containers:
  - name: a
    image: b
  - name: b
    image: b
"""


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        (POD + CONTAINERS + "    prots: []\n", 11, "spec.containers[1].prots"),
        (
            POD + CONTAINERS + "    ports:\n    - containerPort: http\n",
            12,
            "spec.containers[1].ports[0].containerPort",
        ),
        (POD + "  nodeSelector:\n    zone: 7\n" + CONTAINERS, 7, "spec.nodeSelector.zone"),
        (POD + "  hostNetwork: 'yes'\n" + CONTAINERS, 6, "spec.hostNetwork"),
        (POD + CONTAINERS + "    command: {a: b}\n", 11, "spec.containers[1].command"),
        (
            POD + CONTAINERS + "    resources:\n      limits:\n        cpu: lots\n",
            13,
            "spec.containers[1].resources.limits.cpu",
        ),
        (POD + "  priorityClassName: gold\n" + CONTAINERS, 6, "spec.priorityClassName"),
        (
            POD.replace("name: a", "name: a\n  namespace: gone") + CONTAINERS,
            5,
            "metadata.namespace",
        ),
        (
            POD + CONTAINERS + "    imagePullPolicy: Maybe\n",
            11,
            "spec.containers[1].imagePullPolicy",
        ),
        ("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata:\n  b: '?'\n", 5, "data.b"),
    ],
)
def test_line_and_field_of_a_refusal(text, line, field):
    (found,) = load_text(text, "f.yaml")
    with pytest.raises(Exception) as raised:
        preflight([Submission(0, "create", found.tree, found.error)], [], 0, ["ServiceAccount"])
    assert str(raised.value).startswith(f"f.yaml:{line}: {found.name}: {field}: ")


def test_a_message_that_names_nothing_names_no_field():
    assert (
        field_of("cannot unmarshal string into Go struct field A.b.c of type int", {"b": 1}) == ""
    )
    assert field_of("quantities must match", {"spec": {"limits": {"cpu": "1"}}}) == ""
    assert field_of("no idea", {}) == ""
