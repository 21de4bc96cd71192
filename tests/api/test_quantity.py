import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.quantity import MILLI, Quantity, QuantityError, parse

numbers = st.integers(-(10**12), 10**12)
suffixes = st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "n", "u"])
quantities = st.builds(lambda n, s: parse(f"{n}{s}"), numbers, suffixes)


@pytest.mark.parametrize(
    ("text", "canonical", "value", "milli"),
    [
        ("100m", "100m", 1, 100),
        ("1500m", "1500m", 2, 1500),
        ("1Gi", "1Gi", 1 << 30, 1000 << 30),
        ("1024Ki", "1Mi", 1 << 20, 1000 << 20),
        ("0.5", "500m", 1, 500),
        ("1e3", "1e3", 1000, 1_000_000),
        ("-1.5Gi", "-1536Mi", -1610612736, -1610612736000),
        ("12E", "12E", 12 * 10**18 if 12 * 10**18 < 1 << 63 else 0, 0),
        ("0.1Ki", "102400m", 103, 102400),
    ],
)
def test_amounts_read_as_upstream_reads_them(text, canonical, value, milli):
    q = parse(text)
    assert (q.canonical(), q.value(), q.milli_value()) == (canonical, value, milli)


@pytest.mark.parametrize("text", ["", "a", "1Z", "1.2.3", "1e3k", "1 ", " 1", "Ei", "--1"])
def test_other_text_is_refused(text):
    with pytest.raises(QuantityError):
        parse(text)


def test_absurd_exponents_do_not_fill_the_memory():
    huge = parse("1e2000000000")
    assert huge > parse("1")
    with pytest.raises(QuantityError):
        huge.add(parse("1e-9").mul(3)[0])
    with pytest.raises(QuantityError):
        parse("12345678901234567890e2000000000")


@given(quantities)
def test_the_canonical_form_keeps_the_amount_up_to_the_largest_suffix(q):
    if abs(q.normal()[0]) * 10.0 ** q.normal()[1] < 1e21:
        assert parse(q.canonical()) == q


@given(quantities, quantities)
def test_sums_commute_and_differences_undo_them(a, b):
    assert a + b == b + a
    assert (a + b) - b == a


@given(quantities, quantities)
def test_order_follows_the_exact_amounts_and_equal_amounts_hash_alike(a, b):
    assert (a < b) == (b > a)
    assert (a <= b) == (not b < a)
    if a == b:
        assert hash(a) == hash(b)


@given(numbers)
def test_thousandths_round_away_from_zero(n):
    q = Quantity.new_milli(n)
    assert q.milli_value() == n
    assert q.value() == (abs(n) + 999) // 1000 * (1 if n >= 0 else -1)


def test_rounding_up_tells_whether_something_was_lost():
    rounded, exact = parse("1500u").round_up(MILLI)
    assert (str(rounded), exact) == ("2m", False)
    assert parse("2m").round_up(MILLI)[1]


def test_the_same_text_is_parsed_once():
    assert parse("250m") is parse("250m")
