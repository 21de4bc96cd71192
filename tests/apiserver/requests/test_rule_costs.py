"""What rules of custom resources may cost while they run: a million for a call, ten million for an object.

Upstream: apiserver pkg/apis/cel/config.go; texts of apiextensions pkg/apiserver/schema/cel/validation.go.
"""

import pytest

from controlplane.apiserver.kinds.custom import applied_rules
from tests.apiserver.world import World

GROUP = "example.com"
TEXT = "x" * 3000
PATTERN = "x" * 1200
"""A search for it in the text costs a tenth of the one times a quarter of the other, 301 times 300."""
SEARCH = f"self.all(x, x.matches('{PATTERN}'))"
CALL_SPENT = (
    "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to "
    "call cost exceeds limit for rule: {}"
)
OBJECT_SPENT = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


def texts(*given):
    return {
        "type": "array",
        "maxItems": 13,
        "items": {"type": "string", "maxLength": 3000},
        "x-kubernetes-validations": list(given),
    }


def world_with(**properties):
    world = World()
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"foos.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": "Foo", "plural": "foos"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"spec": {"type": "object", "properties": properties}},
                        }
                    },
                }
            ],
        },
    }
    answer = world.create(
        "customresourcedefinitions", body, group="apiextensions.k8s.io", namespace=""
    )
    assert answer.code == 201, answer.tree
    return world


def causes(world, **spec):
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": spec}
    answer = world.create("foos", body, group=GROUP)
    found = (answer.tree.get("details") or {}).get("causes", [])
    return answer.code, [(each["field"], each["message"]) for each in found]


def test_a_call_may_cost_a_million():
    assert applied_rules.PER_CALL == 1_000_000
    rule = {"rule": SEARCH, "message": "all alike"}
    world = world_with(a=texts(rule))
    assert causes(world, a=[TEXT] * 11) == (201, [])
    code, found = causes(world, a=[TEXT] * 12)
    text = CALL_SPENT.format("all alike")
    assert (code, found) == (422, [("spec.a", f'Invalid value: "array": {text}')])


def test_after_a_call_that_cost_too_much_no_rule_is_run():
    failing = {"rule": "size(self) > 100", "message": "too few"}
    world = world_with(a=texts(failing, {"rule": SEARCH}, failing), b=texts(failing))
    code, found = causes(world, a=[TEXT] * 12, b=[])
    assert code == 422
    assert [message.rpartition(": ")[2] for _, message in found] == ["too few", SEARCH]
    assert CALL_SPENT.format(SEARCH) in found[1][1]


def test_a_call_under_the_limit_is_judged_by_what_it_says():
    world = world_with(a=texts({"rule": SEARCH}))
    code, found = causes(world, a=[TEXT, "y" * 3000])
    assert (code, found) == (422, [("spec.a", f"Invalid value: failed rule: {SEARCH}")])


@pytest.mark.slow
def test_an_object_may_cost_ten_million():
    assert applied_rules.BUDGET == 10_000_000
    names = [f"p{number:02}" for number in range(14)]
    failing = {"rule": "size(self) > 100", "message": "too few"}
    world = world_with(**{name: texts({"rule": SEARCH}) for name in names}, z=texts(failing))
    alike = {name: [TEXT] * 11 for name in names[:10]}
    assert causes(world, **alike) == (201, [])
    code, found = causes(world, **{name: [TEXT] * 11 for name in names}, z=[])
    assert code == 422
    assert [message for _, message in found] == [f'Invalid value: "array": {OBJECT_SPENT}']
    assert found[0][0] == "spec.p10"


@pytest.mark.slow
def test_the_next_object_has_ten_million_of_its_own():
    names = [f"p{number}" for number in range(9)]
    world = world_with(**{name: texts({"rule": SEARCH}) for name in names})
    for name in ("a", "b"):
        body = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Foo",
            "metadata": {"name": name},
            "spec": {each: [TEXT] * 11 for each in names},
        }
        assert world.create("foos", body, group=GROUP).code == 201
