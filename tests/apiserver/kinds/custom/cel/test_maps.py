"""Maps with keys of every type: the results, failures and costs that cel-go of Kubernetes 1.36.2 gives."""

import pytest

from controlplane.apiserver.kinds.custom.cel import CelError, compiled
from controlplane.apiserver.kinds.custom.cel.metering import METER, Meter
from controlplane.apiserver.kinds.custom.cel.structs import json_of
from controlplane.apiserver.kinds.custom.cel.types import DYN, INT
from tests.apiserver.requests.test_validating_policies import config, held_to, refusal

OBJECT = {"a": 1, "l": [1]}
UNHASHABLE = "internal error: runtime error: hash of unhashable type "
NEW_YEAR = "timestamp('2021-01-01T00:00:00Z')"


def evaluated(text):
    """The value of an expression and its cost."""
    meter = Meter()
    value = compiled(text, {"x": INT, "d": DYN}).run({"x": 1, "d": OBJECT, METER: meter})
    return value, meter.spent


@pytest.mark.parametrize(
    ("text", "value", "cost"),
    [
        ("size({[1]: 2}) == 1", True, 2),
        ("size({[x]: 2}) == 1", True, 43),
        ("size({{'a': x}: 2}) == 1", True, 63),
        ("{d: 1}.size() == 1", True, 33),
        ("[x] in {[x]: 2}", False, 53),
        ("{[1]: 2} == {[1]: 2}", False, 1),
        ("[{[1]: 1}, {[1]: 1}].distinct().size() == 2", True, 21),
        ("{[1]: 2}.exists(k, v, k == [1] && v == 2)", True, 9),
        ("{[1]: 2}.map(k, k) == [[1]]", True, 15),
        ("{[1]: 2}.transformList(k, v, k) == [[1]]", True, 15),
        ("{'a': 1}.transformMapEntry(k, v, {[v]: k}).size() == 1", True, 47),
        ("[1, 1].transformMapEntry(i, v, {[v]: v}).size() == 2", True, 91),
        ("{?[1]: optional.none()}.size() == 0", True, 33),
        ("type({[1]: 2}) == map", True, 1),
        ("has({[1]: 2}.a)", False, 1),
        ("{'a': {[x]: 2}}.a.map(k, k[0]) == [1]", True, 89),
    ],
)
def test_lists_and_maps_are_keys_that_equal_only_themselves(text, value, cost):
    assert evaluated(text) == (value, cost)


@pytest.mark.parametrize(
    ("text", "value", "cost"),
    [
        ("{dyn(1): 2, dyn(1u): 3, dyn(1.0): 4, dyn(true): 5}.size() == 4", True, 2),
        ("{dyn(1): 2, dyn(true): 3}[true] == 3", True, 3),
        ("dyn(true) in {dyn(x): 3}", False, 33),
        ("{dyn(1): 1} == {dyn(true): 1}", False, 1),
        ("{dyn(1): 1} == {dyn(1.0): 1}", False, 1),
        ("{dyn(1): 2} == {dyn(1u): 2}", True, 1),
        ("{dyn(1): 2}[dyn(1.0)] == 2", True, 3),
        ("{dyn(1u): 2}[dyn(1.0)] == 2", True, 3),
        ("dyn(1u) in {dyn(1): 2}", True, 1),
        ("dyn(1) in {dyn(1u): 2}", True, 1),
        ("dyn(1) in {dyn(1.0): 2}", False, 1),
        ("{1.5: 2}[1.5] == 2", True, 3),
        ("{-0.0: 1}[0.0] == 1", True, 3),
        ("{0.0/0.0: 1} == {0.0/0.0: 1}", False, 63),
        ("{true: 2}.transformMap(k, v, k)[true]", True, 7),
        ("{null: 1} == {null: 1}", True, 1),
        ("{duration('1h'): 2} == {duration('60m'): 2}", True, 1),
        (f"{{{NEW_YEAR}: 2}}.all(k, k >= {NEW_YEAR})", True, 6),
        ("ip('1.1.1.1') in {ip('1.1.1.1'): 1}", True, 33),
    ],
)
def test_keys_are_told_apart_by_type_and_value(text, value, cost):
    assert evaluated(text) == (value, cost)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{[1]: 2}[[1]] == 2", "invalid qualifier type: *types.baseList"),
        ("{[x]: 2}[[x]] == 2", "invalid qualifier type: *types.baseList"),
        ("{'a': 1}[dyn(b'a')] == 1", "invalid qualifier type: types.Bytes"),
        (
            "{x: 1}[dyn(duration('1h') + duration('1h'))] == 1",
            "invalid qualifier type: types.Duration",
        ),
        ("{ip('1.1.1.1'): 1}[ip('1.1.1.1')] == 1", "invalid qualifier type: cel.IP"),
        ("{optional.of(1): 1}[optional.of(1)] == 1", "invalid qualifier type: *types.Optional"),
        ("{dyn(1): 1}[true] == 1", "no such key: true"),
        ("{dyn(1.0): 2}[dyn(1)] == 2", "no such key: 1"),
        ("d[true] == 1", "no such key: true"),
        ("{[1]: 2}.a == 1", "no such key: a"),
        ("size({bytes(string(x)): 1}) == 1", f"{UNHASHABLE}types.Bytes"),
        ("size({b'a': 1}) == 1", f"{UNHASHABLE}types.Bytes"),
        ("size({semver('1.2.3'): 1}) == 1", f"{UNHASHABLE}cel.Semver"),
        ("size({format.dns1123Label(): 1}) == 1", f"{UNHASHABLE}cel.Format"),
        (
            "[1, 2].transformMapEntry(i, v, {true: v}).size() == 1",
            "insert failed: key true already exists",
        ),
        (
            "'%s'.format([{[1]: 2}]) == ''",
            "error during formatting: no formatting function for map key of type list",
        ),
        (
            "'%s'.format([{null: 2}]) == ''",
            "error during formatting: no formatting function for map key of type null_type",
        ),
    ],
)
def test_keys_that_cannot_be_used_fail_as_upstream(text, said):
    with pytest.raises(CelError) as caught:
        evaluated(text)
    assert str(caught.value) == said


def test_a_map_becomes_json_with_the_texts_of_its_keys():
    assert json_of(evaluated("{dyn(1): 'a', dyn(true): 'b'}")[0]) == {"1": "a", "true": "b"}
    with pytest.raises(CelError):
        json_of(evaluated("{[1]: 'a'}")[0])


@pytest.mark.parametrize("key", ["[1]", "{'a': 1}", "true", "1.5", NEW_YEAR, "null", "object"])
def test_a_policy_with_such_keys_decides_and_never_breaks_the_server(key):
    world = held_to(f"{{{key}: object.metadata.name}}.exists(k, v, v == 'good')")
    assert world.create("configmaps", config("good")).code == 201
    assert refusal(world.create("configmaps", config("bad"))).startswith("failed expression")


def test_a_policy_with_a_key_that_go_cannot_hash_refuses_and_says_why():
    world = held_to("{bytes(object.metadata.name): 1}.size() == 1")
    refused = world.create("configmaps", config("c"))
    assert refused.code == 422
    assert "hash of unhashable type types.Bytes" in refused.message
