"""Hostile JSON and YAML texts are values or errors in upstream's words, soon, and nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.depth import DEPTH
from controlplane.apiserver.schema.go_json import TextError, parse_json, parse_yaml, syntax_error
from controlplane.apiserver.schema.status import ApiError


def refused(parse, text):
    with pytest.raises(TextError) as error:
        parse(text if isinstance(text, bytes) else text.encode())
    return str(error.value)


@pytest.mark.parametrize("text", ["[" * 10**6, '{"a":' * 10**6, "[" * 900 + "]" * 900])
def test_json_nests_so_deeply_and_no_more(text):
    assert refused(parse_json, text) == f"invalid character '{text[0]}' exceeded max depth"


def test_json_at_the_limit_is_read_and_what_is_wrong_before_it_is_told_first():
    assert parse_json(b"[" * DEPTH + b"]" * DEPTH)
    assert refused(parse_json, "[x" + "[" * 10**5) == (
        "invalid character 'x' looking for beginning of value"
    )
    assert refused(parse_json, b"[" * DEPTH) == "unexpected end of JSON input"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (rb'"\ud800"', "\ufffd"),
        (rb'"\udc00\ud800"', "\ufffd\ufffd"),
        (rb'{"\ud800":["\udfff"]}', {"\ufffd": ["\ufffd"]}),
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (b'"\xff\xfe"', "\ufffd\ufffd"),
        (b'"\xed\xa0\x80"', "\ufffd\ufffd\ufffd"),
        (rb'"\\ud800"', "\\ud800"),
    ],
)
def test_halves_of_pairs_and_what_is_no_utf8_are_replaced(text, value):
    assert parse_json(text) == value


def test_keys_that_become_the_same_are_given_twice():
    assert parse_json(rb'{"\ud800": 1, "\ud801": 2}').pairs == [("\ufffd", 1), ("\ufffd", 2)]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_json_is_utf8(encoding):
    assert "looking for beginning of value" in refused(parse_json, '{"a": 1}'.encode(encoding))


@pytest.mark.parametrize("digits", [400, 5000, 10**6])
def test_numbers_may_be_long(digits):
    assert parse_json(b"9" * digits) == float("inf")
    assert parse_json(b'{"a": -' + b"9" * digits + b"}") == {"a": float("-inf")}
    assert parse_yaml(b"a: " + b"9" * digits) == {"a": "9" * digits}
    assert parse_yaml(b"a: 0x" + b"9" * digits) == {"a": "0x" + "9" * digits}


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": -Infinity}'])
def test_json_has_no_such_numbers(text):
    assert "invalid character" in refused(parse_json, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 10**5, f"yaml: line 1: exceeded max depth of {DEPTH}"),
        ("a: !!int foo", "yaml: cannot decode !!str `foo` as a !!int"),
        ("a: !!bool foo", "yaml: cannot decode !!str `foo` as a !!bool"),
        ("a: !!float ''", "yaml: cannot decode !!str `` as a !!float"),
        ("a: !!null x", "yaml: cannot decode !!str `x` as a !!null"),
        ("a: !!binary Y", "yaml: !!binary value contains invalid base64 data"),
        ("[a]: b", "yaml: invalid map key: []interface {}{...}"),
        ("a: .nan", "json: unsupported value: NaN"),
        ("&a [" + "x," * 9 + "]: 1", "yaml: invalid map key: []interface {}{...}"),
    ],
)
def test_yaml_that_is_none_of_kubernetes_is_refused(text, message):
    assert refused(parse_yaml, text) == message


def test_yaml_bombs_are_refused():
    laughs = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n"
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert refused(parse_yaml, laughs) == "yaml: document contains excessive aliasing"


@pytest.mark.parametrize(
    "text",
    [
        "!!set {a: , b: }",
        "!!omap [a: b]",
        "!!pairs [a: b]",
        "!!timestamp 2001-01-01",
        "!foo 1",
        "!!binary YQ==",
        "!!python/name:os.system ''",
        "0x_",
        "0b_",
        "=",
        "!!int 0x1F",
        "1e400",
        "!!timestamp 2001-99-99",
    ],
)
def test_whatever_yaml_says_a_value_is_it_can_be_written_as_json(text):
    value = parse_yaml(f"a: {text}".encode())
    assert json.loads(json.dumps(value)) == value


@given(
    st.recursive(
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(-(2**70), 2**70),
            st.text(max_size=5),
            st.floats(allow_nan=False, allow_infinity=False),
        ),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_yaml_that_is_json_is_read_as_yaml_all_the_same(value):
    text = json.dumps({"a": value}).encode()

    def outcome(raw):
        try:
            return parse_yaml(raw)
        except TextError as error:
            return str(error).partition(": ")[2][:10] and "refused"

    assert outcome(text) == outcome(b" " + text)  # the space keeps it from being read as JSON


def test_yaml_of_too_many_values_is_interrupted():
    with pytest.raises(ApiError) as error:
        parse_yaml(b"a: [" + b"1," * 10**6 + b"]")
    assert (error.value.code, error.value.reason) == (504, "Timeout")
    assert "request did not complete within requested timeout" in error.value.message


def test_a_character_out_of_place_is_told_by_its_first_byte():
    for raw, shown in ((b"{}\xef\xbb\xbf{}", "ï"), (b"{}\xc3\xa9", "Ã"), (b"\x01", r"\x01")):
        assert refused(parse_json, raw).startswith(f"invalid character '{shown}' ")
    byte = b"\x81".decode(errors="surrogateescape")
    assert syntax_error(byte).startswith(r"invalid character '\u0081' looking")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("nu", "invalid character ' ' in literal null (expecting 'l')"),
        ("1.", "invalid character ' ' after decimal point in numeric literal"),
        ('"\\', "invalid character ' ' in string escape code"),
        ('{"a"', "unexpected end of JSON input"),
        ('"a', "unexpected end of JSON input"),
    ],
)
def test_a_text_ends_with_a_blank_that_may_be_out_of_place(text, error):
    assert refused(parse_json, text) == error
