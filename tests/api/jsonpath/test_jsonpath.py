"""JSONPath templates: their results, their printing and their errors, as client-go answers them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.jsonpath import JSONPathError, TooMuchWork, parse

POD: Any = {
    "kind": "Pod",
    "spec": {"nodes": ["a", "b", "c", "d"], "size": 3, "share": 0.25, "on": True, "none": None},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "n": 2},
            {"type": "Synced", "status": "False", "n": 1.5},
        ]
    },
    "a.b": {"x": 1},
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ('{.status.conditions[?(@.type=="Ready")].status}', "True"),
        ("{.status.conditions[?(@.type!='Ready')].status}", "False"),
        ("{.status.conditions[?(@.missing)].status}", ""),
        ("{.status.conditions[?(@.status)].type}", "Ready Synced"),
        ("{.status.conditions[*].n}", "2 1.5"),
        ("{.status.conditions[0]}", '{"n":2,"status":"True","type":"Ready"}'),
        ("{.spec.nodes}", '["a","b","c","d"]'),
        ("{.spec.nodes[0,2]}", "a c"),
        ("{.spec.nodes[-1]}{.spec.nodes[-3:-1]}", "db c"),
        ("{.spec.nodes[::2]}", "a c"),
        ("{.spec.nodes[1:1]}", ""),
        ("{.spec['size','share','on']}", "3 0.25 true"),
        ("{.spec.none}", "null"),
        (r"{.a\.b.x}", "1"),
        ("{['a.b']}", ""),
        ("{..type}", "Ready Synced"),
        ("{.spec.*}", '["a","b","c","d"] null true 0.25 3'),
        ("{.kind[*]}{.kind.*}", "error: string is not array or slice"),
        ("{.kind.*}", "80 111 100"),
        ("x {'é\\t'}{1}{2.50}{true}{\"\"}", "x é\t12.5true"),
        ("{1e+7}", "error: unrecognized identifier e+7"),
        ("{10000000.5}", "1.00000005e+07"),
        ("{range .status.conditions[*]}{.type}={.n};{end}!", "Ready=2;Synced=1.5;!"),
        ("{range .none[*]}{.type}{end}after", "after"),
    ],
)
def test_a_template_prints_what_kubectl_prints(template, text):
    path = parse(template, allow_missing_keys=True)
    try:
        printed = path.execute(POD)
    except JSONPathError as error:
        printed = f"error: {error}"
    assert printed == text


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{", "unclosed action"),
        ("{.a\n}", "unclosed action"),
        ("{#}", "unrecognized character in action: U+0023 '#'"),
        ("{\t}", "unrecognized character in action: U+0009"),
        ("{.a[}", "unterminated array"),
        ("{.a[b]}", "invalid array index b"),
        ("{.a[-]}", "array index - is not a number"),
        ("{.a[99999999999999999999]}", "array index 99999999999999999999 is not a number"),
        ("{....a}", "invalid multiple recursive descent"),
        ("{1.2.3}", "cannot parse number 1.2.3"),
        ("{" + "9" * 5000 + "}", "cannot parse number " + "9" * 5000),
        ("{.a[?(@.b}", "unterminated filter"),
        ("{.a[?(@.b)}", "unclosed array expect ]"),
        ("{'a}", "unterminated quoted string"),
        (r"{'\q'}", r"unquote string '\q' error invalid syntax"),
    ],
)
def test_a_template_that_cannot_be_read_is_refused_in_upstreams_words(template, text):
    with pytest.raises(JSONPathError) as refused:
        parse(template)
    assert str(refused.value) == text


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.spec.b}", "b is not found"),
        ("{.spec.nodes[4]}", "array index out of bounds: index 4, length 4"),
        ("{.spec.nodes[0:5]}", "array index out of bounds: index 4, length 4"),
        ("{.spec.nodes[2:1]}", "starting index 2 is greater than ending index 1"),
        ("{.spec.nodes[0:2:0]}", "step must be > 0"),
        ("{.spec.size[0]}", "int64 is not array or slice"),
        ("{1[0]}", "int is not array or slice"),
        ("{.spec[0]}", "map[string]interface {} is not array or slice"),
        ("{.a\\.b[?(@.x)]}", "map[x:1] is not array or slice and cannot be filtered"),
        ("{.spec.nodes[?(@<1)]}", "incompatible types for comparison"),
        ("{.spec.nodes[?(@=>'a')]}", "unrecognized filter operator =>"),
        ("{.status.conditions[?(@.*=='a')]}", "can only compare one element at a time"),
        ("{.status.conditions[?(@=='a')]}", "invalid type for comparison"),
        ("{end}", "not in range, nothing to end"),
        ("{foo}", "unrecognized identifier foo"),
    ],
)
def test_a_template_that_does_not_fit_the_object_is_refused_in_upstreams_words(template, text):
    with pytest.raises(JSONPathError) as refused:
        parse(template).execute(POD)
    assert str(refused.value) == text


def test_results_as_json_are_an_indented_list_for_each_part():
    text = parse("{.spec.nodes[0:2]}{.none}", allow_missing_keys=True).execute(POD, as_json=True)
    assert text == '[\n    "a",\n    "b"\n]\n[]\n'


def test_nested_ranges_that_multiply_are_given_up():
    items = [[[list(range(50))] * 50] * 50] * 50
    template = "{range .a[*]}{range @[*]}{range @[*]}{range @[*]}{@}{end}{end}{end}{end}"
    with pytest.raises(TooMuchWork):
        parse(template).execute({"a": items})
    with pytest.raises(TooMuchWork):
        parse("{range @}" * 5000).execute({"a": 1})


KEYS = st.sampled_from(["a", "b", "c-d", "e.f"])
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@given(TREES)
def test_the_path_of_every_value_finds_that_value(tree):
    def walk(path: str, value: Any) -> None:
        assert parse("{" + path + "}").find_results(tree) == [[value]] or value is None
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(path + "." + key.replace(".", "\\."), inner)
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                walk(f"{path}[{index}]", inner)
                assert parse(f"{{{path}[{index - len(value)}]}}").find_results(tree) == [[inner]]

    walk("@", tree)


@given(st.lists(st.integers(-3, 3), max_size=6), st.integers(-7, 7), st.integers(-7, 7))
def test_a_slice_is_pythons_slice_where_it_is_allowed(items, start, end):
    try:
        found = parse(f"{{.a[{start}:{end}]}}").find_results({"a": items})
    except JSONPathError:
        return
    assert found == [items[start:end]] or found == [[]]


@pytest.mark.slow
@given(st.text("{}[]()?@.$*'\"\\:,-=<> a01\n", max_size=30), TREES)
def test_no_template_ends_in_another_error(template, tree):
    with suppress(JSONPathError):
        parse(template, allow_missing_keys=True).execute(tree)
