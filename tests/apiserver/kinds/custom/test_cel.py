import pytest

from controlplane.apiserver.kinds.custom.cel import CelError, compile_rule, compiled
from controlplane.apiserver.kinds.custom.cel.declared import declared
from controlplane.apiserver.kinds.custom.cel.values import seen
from controlplane.apiserver.kinds.custom.rules import location

SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"}, "s": {"type": "string"}, "n": {"type": "number"},
        "d": {"type": "string", "format": "duration"},
        "t": {"type": "string", "format": "date-time"},
        "l": {"type": "array", "items": {"type": "string"}},
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
        "io": {"x-kubernetes-int-or-string": True},
        "i": {"type": "object", "properties": {"host": {"type": "string"}}},
    },
}  # fmt: skip


def typed(rule):
    kind = declared(SCHEMA).type
    return compiled(rule, {"self": kind, "oldSelf": kind})


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("'%d-%s %.2f %x'.format([self.a, self.s, self.n, 255]) == '1-x 2.50 ff'",
         {"a": 1, "s": "x", "n": 2.5}),
        ("ip('10.0.0.1').family() == 4 && !isIP('010.0.0.1') && !ip('::1').isGlobalUnicast()", {}),
        ("cidr('10.0.0.0/8').containsIP('10.1.2.3')", {}),
        ("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !isCIDR('10.0.0.0/33')", {}),
        ("cidr('10.1.2.3/8').masked().prefixLength() == 8", {}),
        ("url('https://h:8/p?q=1').getHost() == 'h:8' && url('https://h:8/').getPort() == '8'", {}),
        ("isURL('/path') && !isURL('x y') && url('http://h/?a=1&a=2').getQuery()['a'][1] == '2'",
         {}),
        ("semver('1.2.3-rc.1').isLessThan(semver('1.2.3')) && isSemver('v1.2', true)", {}),
        ("self.l.reverse() == ['b', 'a', 'a'] && self.l.distinct() == ['a', 'b']",
         {"l": ["a", "a", "b"]}),
        ("[[1], [2]].flatten() == [1, 2] && [3, 1].sort() == [1, 3] && [1, 2].slice(0, 1) == [1]",
         {}),
        ("self.t.getFullYear() == 2022 && self.t.getMonth() == 5 && self.t.getHours('+02:00') == 2",
         {"t": "2022-06-01T00:00:00Z"}),
        ("self.d > duration('1m') && self.d.getSeconds() == 5400", {"d": "1h30m"}),
        ("timestamp('2021-01-01T00:00:00Z') + duration('1h') == timestamp('2021-01-01T01:00:00Z')",
         {}),
        ("self.set == ['b', 'a']", {"set": ["a", "b"]}),
        ("self.?i.?host.orValue('d') == 'd' && self.i.?host.optMap(h, h + 'x').hasValue() == false",
         {"i": {}}),
        ("optional.none().or(optional.of(3)).value() == 3", {}),
        ("self.m.all(k, v, k == 'x' && v == 'y')", {"m": {"x": "y"}}),
        ("self.l.transformList(i, v, i > 0, v) == ['b']", {"l": ["a", "b"]}),
        ("self.m.transformMap(k, v, k + v) == {'x': 'xy'}", {"m": {"x": "y"}}),
        ("sets.contains([1, 2], [2]) && sets.intersects([1], [1, 3])", {}),
        ("type(self.io) == string && type(1u) == uint && type([]) == list", {"io": "5"}),
        ("format.dns1123Label().validate('A').hasValue()", {}),
    ],
)  # fmt: skip
def test_libraries_of_rules_do_what_kubernetes_documents(rule, value):
    assert typed(rule).run({"self": seen(value, SCHEMA)}) is True


@pytest.mark.parametrize(
    ("rule", "issues"),
    [
        ("self.a > 'x'", [(7, "found no matching overload for '_>_' applied to '(int, string)'")]),
        ("self.d > self.s",
         [(7, "found no matching overload for '_>_' applied to '(duration, string)'")]),
        ("!has(self.zz) || self.zz.size() < 3",
         [(4, "undefined field 'zz'"), (21, "undefined field 'zz'")]),
        ("self.l.sum() == 3",
         [(10, "found no matching overload for 'sum' applied to 'list(string).()'")]),
        ("base64.encode(bytes(self.s)) == 'x'",
         [(0, "undeclared reference to 'base64' (in container '')"),
          (13, "undeclared reference to 'encode' (in container '')")]),
        ("self.a.all(x, x > 1)",
         [(4, "expression of type 'int' cannot be range of a comprehension (must be list, map, or "
              "dynamic)")]),
    ],
)  # fmt: skip
def test_types_are_checked_and_all_mistakes_listed_in_their_order(rule, issues):
    with pytest.raises(CelError) as caught:
        typed(rule)
    assert list(caught.value.issues) == issues


def test_every_mistake_is_marked_in_its_own_line():
    source = "self.a == 1 &&\nself.zz"
    with pytest.raises(CelError) as caught:
        typed(source)
    shown = location(source, caught.value)
    assert shown == "ERROR: <input>:2:5: undefined field 'zz'\n | self.zz\n | ....^"


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("ip(self)", 'IP Address "x" parse error during conversion from string: '
                     'ParseAddr("x"): unable to parse IP'),
        ("url(self)", 'URL parse error during conversion from string: parse "x": invalid URI for '
                      "request"),
        ("cidr('10.0.0.0/8').containsIP(self)", "no such overload"),
        ("[1].reverse()[3] == 1", "index out of bounds: 3"),
        ("1 / 0 == 1", "division by zero"),
    ],
)  # fmt: skip
def test_what_fails_while_it_is_computed_says_why(rule, text):
    with pytest.raises(CelError) as caught:
        compile_rule(rule).run({"self": "x"})
    assert str(caught.value) == text


def test_a_deciding_element_makes_up_for_one_that_failed():
    run = compile_rule("self.exists(x, 1 / x == 1)").run
    assert run({"self": [0, 1]}) is True
    with pytest.raises(CelError):
        run({"self": [0, 5]})


LONG = "9" * 5000


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (f"{LONG} > 0", "invalid int literal"),
        ("9223372036854775809 > 0", "invalid int literal"),
        (f"0x{'f' * 17} > 0", "invalid int literal"),
        (f"{LONG}u > 0u", "invalid uint literal"),
        ("1e400 > 0.0", "invalid double literal"),
        (r"'\UFFFFFFFF' == ''", "unable to unescape string"),
    ],
)
def test_literals_that_nothing_holds_are_refused(source, text):
    with pytest.raises(CelError, match=text):
        compile_rule(source)


@pytest.mark.parametrize(
    "source",
    [
        "007 == 7", "0x10 == 16", "18446744073709551615u > 0u", "-9223372036854775808 < 0",
        r"'\uD800' == '�'",
        "int('-9223372036854775808') < 0", "uint('18446744073709551615') > 0u", "int(1.9) == 1",
        "double('1e3') == 1000.0", "double('-inf') < 0.0",
    ],
)  # fmt: skip
def test_numbers_at_their_limits_are_read(source):
    assert compile_rule(source).run({}) is True


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (f"int('{LONG}') > 0", "type conversion error from 'string' to 'int'"),
        ("int('9223372036854775808') > 0", "to 'int'"),
        ("int('٣') > 0", "to 'int'"),
        ("int(1e300) > 0", "integer overflow"),
        ("int(double('nan')) > 0", "to 'int'"),
        (f"uint('{LONG}') > 0u", "to 'uint'"),
        ("uint(-1) > 0u", "unsigned integer overflow"),
        ("double('1_000') > 0.0", "to 'double'"),
        ("double('1e400') > 0.0", "to 'double'"),
        (f"duration('{LONG}h') > duration('1h')", "invalid duration argument"),
        ("duration('99999999999999h') > duration('1h')", "invalid duration argument"),
        (f"timestamp('2000-01-01T00:00:00Z').getHours('{LONG}') > 0", "unknown time zone"),
        ("timestamp('2000-01-01T00:00:00Z').getHours('+99:99') > 0", "unknown time zone"),
        ("'%.999999999f'.format([1.0]) == ''", "precision 999999999 is too large"),
        (f"ip('1.2.3.{LONG}').family() == 4", "IPv4 field has value >255"),
        (f"semver('1.2.{LONG}').major() == 1", "value out of range"),
        (f"semver('1.2.3-{LONG}').major() == 1", "value out of range"),
    ],
)
def test_values_that_no_type_holds_fail_in_one_line(source, text):
    with pytest.raises(CelError, match=text) as caught:
        compile_rule(source).run({})
    assert "\n" not in str(caught.value)
