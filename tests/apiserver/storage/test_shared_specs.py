"""Pods made from one template share their spec in the store, and nobody can tell."""

from __future__ import annotations

import copy
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.request import Request
from controlplane.apiserver.options import ServerOptions
from controlplane.apiserver.requests.server import ApiServer

NAMES = itertools.count()
EPOCH = 1_767_225_600_000_000_000


def server() -> ApiServer:
    numbers = itertools.count()
    made = ApiServer(
        uid=lambda: f"00000000-0000-4000-8000-{next(numbers):012}",
        suffix=lambda: "bcdfg",
        options=ServerOptions(disabled=("ServiceAccount",)),
    )
    made.bootstrap(EPOCH)
    return made


def pod(spec):
    meta = {"name": f"p-{next(NAMES)}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def created(core, spec):
    request = Request("create", resource="pods", namespace="default", body=pod(spec))
    return core.handle(request, EPOCH)


def test_pods_of_one_template_share_the_stored_spec():
    core = server()
    spec = {"containers": [{"name": "c", "image": "i"}]}
    first, second = created(core, spec), created(core, copy.deepcopy(spec))
    assert first.tree["spec"] is second.tree["spec"]


def test_a_template_that_its_owner_changes_is_read_anew():
    core = server()
    spec = {"containers": [{"name": "c", "image": "i"}]}
    created(core, spec)
    spec["containers"][0]["image"] = "j"
    spec["nodeName"] = "n1"
    second = created(core, spec)
    assert second.tree["spec"]["containers"][0]["image"] == "j"
    assert second.tree["spec"]["nodeName"] == "n1"


def test_a_priority_class_that_changed_counts():
    core = server()

    def priority_class(name, value):
        body = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "globalDefault": True,
        }
        where = {"group": "scheduling.k8s.io", "resource": "priorityclasses"}
        assert core.handle(Request("create", body=body, **where), EPOCH).ok
        return lambda: core.handle(Request("delete", name=name, **where), EPOCH)

    spec = {"containers": [{"name": "c", "image": "i"}]}
    values = []
    for name, value in (("low", 3), ("high", 9)):
        drop = priority_class(name, value)
        values.append(created(core, spec).tree["spec"]["priority"])
        drop()
    values.append(created(core, spec).tree["spec"]["priority"])
    assert values == [3, 9, 0]


SPECS = st.fixed_dictionaries(
    {
        "containers": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["a", "b", "B"])},
                optional={
                    "image": st.sampled_from(["i", "", " i"]),
                    "stdin": st.sampled_from([True, 1, False]),
                },
            ),
            max_size=2,
        )
    },
    optional={
        "priority": st.sampled_from([0, True, 1.0, "0"]),
        "terminationGracePeriodSeconds": st.sampled_from([0, 1, True, -1]),
        "nodeSelector": st.just({"beta.kubernetes.io/os": "linux"}),
    },
)


@pytest.mark.slow
@given(SPECS)
def test_a_known_spec_gets_the_answer_that_an_unknown_one_gets(spec):
    def answer(core):
        body = {**pod(copy.deepcopy(spec)), "metadata": {"name": "web"}}
        said = core.handle(
            Request("create", resource="pods", namespace="default", body=body), EPOCH
        )
        return (said.code, said.message, said.warnings, said.tree.get("spec"))

    core = server()
    created(core, spec)
    assert answer(core) == answer(server())
