import pytest

from controlplane.apiserver.kinds.custom.cel import CelError
from controlplane.apiserver.kinds.custom.cel.conversions import to_string
from controlplane.apiserver.kinds.custom.cel.formatting import formatted


@pytest.mark.parametrize(
    ("pattern", "values", "text"),
    [
        ("%e|%.2e", [12345.678, 0.001234], "1.234568×10⁰⁴|1.234000×10⁻⁰³"),
        ("%f|%.2f", [1.5, 1234567.891], "1.500000|1,234,567.89"),
        ("%f %f %e", [float("inf"), float("nan"), "-Infinity"], "∞ NaN     -∞"),
        ("%s|%s", [["x", 1.5], {"a": [2]}], '["x", 1.500000]|{"a":[2]}'),
        ("%x|%X|%o|%b|%x", [255, "Az", 8, True, b"ab"], "ff|417A|10|1|6162"),
        ("%s %% %d", [None, -3], "null % -3"),
    ],
)
def test_values_take_the_places_of_clauses(pattern, values, text):
    assert formatted(pattern, values) == text


@pytest.mark.parametrize(
    ("pattern", "values", "said"),
    [
        ("%d %d", [1], "index 1 out of range"),
        ("%", [1], "unexpected end of string"),
        ("%q", [1], 'could not parse formatting clause: unrecognized formatting clause "q"'),
        ("%f", ["x"], "fixed-point clause can only be used on doubles, was given string"),
    ],
)
def test_a_pattern_that_does_not_fit_fails(pattern, values, said):
    with pytest.raises(CelError, match=said):
        formatted(pattern, values)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1e6, "1e+06"), (123456789.5, "1.234567895e+08"), (1e-5, "1e-05"), (-0.0001, "-0.0001"),
     (100000.0, "100000"), (float("-inf"), "-Inf")],
)  # fmt: skip
def test_a_number_is_told_as_go_tells_it(value, text):
    assert to_string(value) == text
