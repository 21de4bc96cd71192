"""No YAML text ends the process or fills the memory: it is refused before it is composed."""

import subprocess
import sys

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.depth import DEPTH, too_deep
from controlplane.api.yaml_text import Excessive, TooDeepText, TooMany, dumper, guard, load

LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n + 1}: &a{n + 1}\n  <<: [*a{n}, *a{n}]\n" for n in range(40)
)


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 100_000,
        "{a: " * 100_000,
        "? " * 100_000,
        "- " * 100_000,
        "- ? " * 50_000,
        "\n".join(" " * n + "a:" for n in range(2000)),
        "\r".join(" " * n + "a:" for n in range(2000)),
        "a: &a0 [1]\n" + "".join(f"a{n}: &a{n + 1} [*a{n}]\n" for n in range(DEPTH + 1)),
        "".join("\n" + " " * n + "a:\n" + " " * n + "- b:" for n in range(0, 2 * DEPTH, 2)),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_deep_texts_are_refused(text, encoding):
    with pytest.raises(TooDeepText):
        load(text.encode(encoding))


@pytest.mark.parametrize("text", [LAUGHS, MERGES, LAUGHS.replace("[", "{<<: [").replace("]", "]}")])
def test_aliases_and_merge_keys_that_stand_for_too_much_are_refused(text):
    with pytest.raises(yaml.YAMLError, match=r"excessive aliasing|mapping"):
        load(text)


def test_as_many_aliases_as_people_write_are_read():
    text = "base: &base {a: 1, b: 2}\nall:\n" + "- {<<: *base, c: *base}\n" * 50
    assert load(text)["all"] == [{"a": 1, "b": 2, "c": {"a": 1, "b": 2}}] * 50


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &a [*a]", "contains itself"),
        ("%TAG !a! x\n" * 100 + "--- a", "directives"),
        ("a: 2001-99-99", "cannot be read"),
        ("a: !!int x", "cannot be read"),
        ("{[1]: 2}", "key"),
    ],
)
def test_whatever_is_wrong_is_a_yaml_error(text, problem):
    with pytest.raises(yaml.YAMLError, match=problem):
        load(text)


def test_so_many_values_are_read_and_no_more():
    guard("a: [" + "1," * 1000 + "]", nodes=1100)
    with pytest.raises(TooMany):
        guard("a: [" + "1," * 2000 + "]", nodes=1100)


def test_brackets_and_columns_inside_texts_do_not_nest():
    text = "a: |\n  " + "[" * 2000 + "\n" + " " * 400 + "- b\nc: '" + "{" * 2000 + "'\n"
    assert load(text)["c"] == "{" * 2000


@given(
    st.recursive(
        st.sampled_from(["a", 1, None]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=3)
        ),
    ),
    st.booleans(),
)
def test_what_yaml_writes_is_read_as_before(value, flow):
    assert load(yaml.safe_dump(value, default_flow_style=flow)) == value


@pytest.mark.parametrize("flow", [True, False, None])
def test_the_bound_is_the_same_in_every_style(flow):
    def nested(levels):
        value = None
        for number in range(levels):
            value = [value] if number % 2 else {"a": value}
        return value

    assert not too_deep(nested(DEPTH))
    assert too_deep(nested(DEPTH + 1))
    text = yaml.safe_dump(nested(100), default_flow_style=flow)
    assert load(text) == nested(100)
    deep = "{a: [" * (DEPTH // 2) + "1" + "]}" * (DEPTH // 2)
    load(deep)
    with pytest.raises(TooDeepText):
        load("[" + deep + "]")


def test_a_bomb_does_not_end_the_process():
    code = (
        "import controlplane.api.yaml_text as y\ntry: y.load('[' * 10**6)\nexcept y.Excessive: pass"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert Excessive("x", 2).line == 2


@pytest.mark.parametrize(
    "text", ["y", "N", "no", "1e3", "-5E2", "0o17", "0x1f", "1_000", "1:30", "~", ".5", "plain"]
)
def test_text_that_another_reader_takes_for_a_number_is_quoted(text) -> None:
    shared = [text]
    written = yaml.dump({"a": shared, "b": shared}, Dumper=dumper())
    assert yaml.safe_load(written) == {"a": [text], "b": [text]}
    assert ("- plain" in written) == (text == "plain")
    assert "&" not in written
