import pytest

from controlplane.apiserver.kinds.custom.cel import CelError, compile_rule


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("self.lowerAscii() == 'a'", "no such overload: lowerAscii(int)"),
        ("self.replace('a', 'b') == ''", "no such overload: replace(int, string, string)"),
        ("isIP(self)", "no such overload: isIP(int)"),
        ("self.size() == 1", "no such overload: size"),
        ("self.startsWith('a')", "no such overload"),
        ("self + 'a' == 'b'", "no such overload"),
        ("self.all(x, x)", "got 'types.Int', expected iterable type"),
        ("self.all(k, v, v)", "unsupported comprehension range type: types.Int"),
    ],
)
def test_a_value_that_no_form_is_for_fails_as_upstream_tells_it(rule, said):
    with pytest.raises(CelError) as caught:
        compile_rule(rule).run({"self": 1})
    assert str(caught.value) == said


def test_the_first_element_of_a_list_tells_which_form_is_meant():
    assert compile_rule("self.isSorted()").run({"self": [1, 2]}) is True
    with pytest.raises(CelError, match=r"no such overload: sum\(list\)"):
        compile_rule("self.sum() == 1").run({"self": ["a"]})
