"""
Resource quantities, equal to upstream's `resource.Quantity` down to its overflows.

A quantity is held in one of two forms, as upstream does, because the form shows in results: a
64-bit value with a decimal scale (most input), or an arbitrary decimal. Quantities are immutable;
arithmetic gives new ones. `str(q)` echoes text that the fast path accepted; `canonical()` is the
normal form.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal

Format = Literal["DecimalSI", "BinarySI", "DecimalExponent", ""]

NANO: Final = -9
MICRO: Final = -6
MILLI: Final = -3
KILO: Final = 3
MEGA: Final = 6
GIGA: Final = 9

MAX_INT64: Final = (1 << 63) - 1
MIN_INT64: Final = -(1 << 63)
_MOD: Final = 1 << 64
_SPAN: Final = 4000
"""Digits that a number may need; upstream sets no bound and would fill the memory instead."""

_WRONG_FORM: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_WRONG_NUMBER: Final = "unable to parse numeric part of quantity"
_WRONG_SUFFIX: Final = "unable to parse quantity's suffix"

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15,
                   "E": 18}  # fmt: skip
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = {exponent: suffix for suffix, exponent in _BINARY.items()}
_WRAPPING_SCALES: Final = frozenset((1, 2, 3, 6, 9))


class QuantityError(ValueError):
    """Text that is no quantity; the message is upstream's."""


def _wrap(value: int) -> int:
    """Two's complement of 64 bits."""
    return (value + (1 << 63)) % _MOD - (1 << 63)


def _scale_up(value: int, scale: int) -> tuple[int, bool]:
    """
    Value * 10**scale as upstream's int64 code does it: (result, no overflow).

    On overflow the scales with code of their own give the wrapped product, the others 0.
    """
    if value == 0:
        return 0, True
    product = value * 10 ** min(scale, 40)
    if MIN_INT64 <= product <= MAX_INT64 and value != MIN_INT64:
        return product, True
    if scale == 0:
        return value, True
    if scale in _WRAPPING_SCALES and value != MIN_INT64:
        return _wrap(product), False
    return 0, False


def _wide_down(unscaled: int, scale: int) -> int:
    """`unscaled` / 10**scale as upstream's decimal code has it: one more when there is a rest.

    What does not exceed an int64 upwards is cut to 64 bits first, so large negative amounts wrap.
    """
    if unscaled < MAX_INT64 and scale <= 18:
        unscaled = _wrap(unscaled)
        quotient, rest = divmod(abs(unscaled), 10**scale)
        quotient = quotient if unscaled >= 0 else -quotient
    else:
        quotient, rest = divmod(unscaled, 10**scale)
    return _wrap(quotient + 1 if rest else quotient)


def _divide_away(value: int, divisor: int) -> tuple[int, bool]:
    """(quotient rounded away from zero, whether it is exact)."""
    quotient, rest = divmod(abs(value), divisor)
    if rest:
        quotient += 1
    return (quotient if value >= 0 else -quotient), not rest


def _scale_down(value: int, scale: int) -> tuple[int, bool]:
    """Value / 10**scale rounded away from zero, and whether that is exact."""
    if value == 0:
        return 0, True
    if scale > _SPAN and scale > len(str(abs(value))):
        return (1 if value > 0 else -1), False
    return _divide_away(value, 10**scale)


class Quantity:
    """An amount of a resource with the notation it was written in."""

    __slots__ = ("_milli", "_scale", "_text", "_unscaled", "_value", "_wide", "format")

    def __init__(
        self, unscaled: int, scale: int, form: Format, *, wide: bool = False, text: str = ""
    ) -> None:
        """The number unscaled * 10**scale; `wide` is upstream's decimal form."""
        self._unscaled = unscaled
        self._scale = scale
        self._wide = wide
        self._text = text
        self.format: Format = form
        self._value: int | None = None
        self._milli: int | None = None

    @staticmethod
    def parse(text: str) -> Quantity:
        """The quantity that a text stands for; see the function of this name."""
        return parse(text)

    @classmethod
    def new(cls, value: int, form: Format = "DecimalSI") -> Quantity:
        """A quantity of `value` whole units."""
        return cls(value, 0, form)

    @classmethod
    def new_milli(cls, value: int, form: Format = "DecimalSI") -> Quantity:
        """A quantity of `value` thousandths."""
        return cls(value, MILLI, form)

    def value(self) -> int:
        """Whole units, a fraction counts as one more (away from zero, decimals upwards)."""
        result = self._value
        if result is None:
            result = self._value = self.scaled_value(0)
        return result

    def milli_value(self) -> int:
        """Thousandths, rounded like `value`; huge amounts overflow as upstream's do."""
        result = self._milli
        if result is None:
            result = self._milli = self.scaled_value(MILLI)
        return result

    def scaled_value(self, scale: int) -> int:
        """The amount in units of 10**scale as an int64."""
        shift = self._scale - scale
        if not self._wide:
            if shift < 0:
                return _scale_down(self._unscaled, -shift)[0]
            return _scale_up(self._unscaled, shift)[0]
        if shift >= 0:
            factor = 10**shift if shift <= 18 else MIN_INT64
            return _wrap(_wrap(self._unscaled) * factor)
        return _wide_down(self._unscaled, -shift)

    def as_int64(self) -> int | None:
        """Whole units when the 64-bit form holds them exactly, else None."""
        if self._wide or self._scale < 0:
            return None
        value, fits = _scale_up(self._unscaled, self._scale)
        return value if fits else None

    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self._unscaled > 0) - (self._unscaled < 0)

    def is_zero(self) -> bool:
        """Return whether the amount is zero."""
        return self._unscaled == 0

    def cmp(self, other: Quantity) -> int:
        """-1, 0 or 1 by amount; the notation does not count."""
        a, b = self._unscaled, other._unscaled
        if self._scale != other._scale:
            sign, other_sign = self.sign(), other.sign()
            if sign != other_sign or sign == 0:
                return (sign > other_sign) - (sign < other_sign)
            shift = self._scale - other._scale
            if abs(shift) > _SPAN:
                return self._cmp_far(other)
            if shift > 0:
                a *= 10**shift
            else:
                b *= 10**-shift
        return (a > b) - (a < b)

    def _cmp_far(self, other: Quantity) -> int:
        """Compares amounts of equal sign whose scales lie too far apart to be expanded."""
        mine = len(str(abs(self._unscaled))) + self._scale
        theirs = len(str(abs(other._unscaled))) + other._scale
        return self.sign() * ((mine > theirs) - (mine < theirs))

    def add(self, other: Quantity) -> Quantity:
        """The sum; zero takes over the notation of the other."""
        form = other.format if self._unscaled == 0 else self.format
        if not (self._wide or other._wide):
            total = self._narrow_sum(other._unscaled, other._scale)
            if total is not None:
                return Quantity(*total, form)
        return self._wide_sum(other._unscaled, other._scale, form)

    def sub(self, other: Quantity) -> Quantity:
        """The difference; zero takes over the notation of the other."""
        form = other.format if self._unscaled == 0 else self.format
        if not (self._wide or other._wide):
            total = self._narrow_sum(_wrap(-other._unscaled), other._scale)
            if total is not None:
                return Quantity(*total, form)
        return self._wide_sum(-other._unscaled, other._scale, form)

    def _narrow_sum(self, b: int, b_scale: int) -> tuple[int, int] | None:
        """The sum in the 64-bit form, None when it overflows on the way."""
        a, a_scale = self._unscaled, self._scale
        if b == 0:
            return a, a_scale
        if a == 0:
            return b, b_scale
        fits = True
        if a_scale > b_scale:
            a, fits = _scale_up(a, a_scale - b_scale)
        elif b_scale > a_scale:
            b, fits = _scale_up(b, b_scale - a_scale)
        total = a + b
        if not fits or not MIN_INT64 <= total <= MAX_INT64:
            return None
        return total, min(a_scale, b_scale)

    def _wide_sum(self, b: int, b_scale: int, form: Format) -> Quantity:
        scale = min(self._scale, b_scale)
        if abs(self._scale - b_scale) > _SPAN:
            raise QuantityError(_WRONG_NUMBER)
        total = self._unscaled * 10 ** (self._scale - scale) + b * 10 ** (b_scale - scale)
        return Quantity(total, scale, form, wide=True)

    def mul(self, factor: int) -> tuple[Quantity, bool]:
        """The product, and whether the digits of the result fit 64 bits."""
        a = self._unscaled
        if not self._wide:
            if a == 0:
                return Quantity(0, self._scale, self.format), True
            if factor == 0:
                return Quantity(0, 0, self.format), True
            product = a * factor
            ones = a == 1 or factor == 1
            minimum = MIN_INT64 in (a, factor)
            if ones or (not minimum and MIN_INT64 <= product <= MAX_INT64):
                return Quantity(product, self._scale, self.format), True
        product = a * factor
        fits = MIN_INT64 <= product <= MAX_INT64
        return Quantity(product, self._scale, self.format, wide=True), fits

    def times(self, other: Quantity) -> Quantity:
        """The exact product, in the notation of this quantity and in upstream's decimal form."""
        unscaled = self._unscaled * other._unscaled
        return Quantity(unscaled, self._scale + other._scale, self.format, wide=True)

    def neg(self) -> Quantity:
        """The negative amount in the same notation."""
        value = -self._unscaled if self._wide else _wrap(-self._unscaled)
        return Quantity(value, self._scale, self.format, wide=self._wide)

    def round_up(self, scale: int) -> tuple[Quantity, bool]:
        """Rounded away from zero to a multiple of 10**scale, and whether nothing was lost."""
        if self._scale >= scale:
            if not self._wide or self._scale == scale:
                text = "" if self._wide else self._text
                same = Quantity(
                    self._unscaled, self._scale, self.format, wide=self._wide, text=text
                )
                return same, True
            value = self._unscaled * 10 ** (self._scale - scale)
            return Quantity(value, scale, self.format, wide=True), True
        value, exact = _scale_down(self._unscaled, scale - self._scale)
        return Quantity(value, scale, self.format, wide=self._wide), exact

    def canonical(self) -> str:
        """
        The normal form: no fraction, the largest suffix that loses nothing.

        Amounts beyond the suffixes lose their exponent, as upstream's do.
        """
        if self._unscaled == 0:
            return "0"
        form = self.format or "DecimalExponent"
        if form == "BinarySI":
            whole = self._whole()
            if whole is not None and abs(whole) >= 1024:
                power = 0
                while whole % 1024 == 0:
                    whole //= 1024
                    power += 10
                return f"{whole}{_BINARY_SUFFIX.get(power, '')}"
            form = "DecimalSI"
        digits, exponent = self._digits()
        if form == "DecimalExponent":
            return f"{digits}e{exponent}" if exponent else str(digits)
        return f"{digits}{_DECIMAL_SUFFIX.get(exponent, '')}"

    def _whole(self) -> int | None:
        if self._scale >= 0:
            return self._unscaled * int(10**self._scale)
        quotient, rest = divmod(self._unscaled, 10**-self._scale)
        return None if rest else quotient

    def _digits(self) -> tuple[int, int]:
        """(mantissa without trailing zeros, exponent), the exponent a multiple of three."""
        digits = str(self._unscaled)
        short = digits.rstrip("0")
        exponent = self._scale + len(digits) - len(short)
        surplus = exponent % 3
        return int(short) * 10**surplus, exponent - surplus

    def approximate_float(self) -> float:
        """The amount as float, with the two roundings of upstream's AsApproximateFloat64."""
        power = float(f"1e{abs(self._scale)}")
        if self._scale == 0:
            return float(self._unscaled)
        return float(self._unscaled) * (power if self._scale > 0 else 1 / power)

    def normal(self) -> tuple[int, int]:
        """(mantissa, exponent): equal for equal amounts."""
        return self._digits() if self._unscaled else (0, 0)

    def go_struct(self) -> str:
        """The fields as Go's %v prints them; the decimal form, an address there, is printed as an amount."""
        return f"{{{{{self._unscaled} {self._scale}}} {{<nil>}} {self._text} {self.format}}}"

    def __str__(self) -> str:
        return self._text or self.canonical()

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.cmp(other) == 0

    def __hash__(self) -> int:
        return hash(self.normal())

    def __lt__(self, other: Quantity) -> bool:
        return self.cmp(other) < 0

    def __le__(self, other: Quantity) -> bool:
        return self.cmp(other) <= 0

    def __gt__(self, other: Quantity) -> bool:
        return self.cmp(other) > 0

    def __ge__(self, other: Quantity) -> bool:
        return self.cmp(other) >= 0

    def __add__(self, other: Quantity) -> Quantity:
        return self.add(other)

    def __sub__(self, other: Quantity) -> Quantity:
        return self.sub(other)

    def __neg__(self) -> Quantity:
        return self.neg()


def _span(text: str, start: int, letters: str) -> int:
    """The first position from `start` on whose character is not among the letters."""
    end = len(text)
    while start < end and text[start] in letters:
        start += 1
    return start


def _split(text: str) -> tuple[bool, str, str, str, str]:
    """(positive, numeric text, digits, fraction digits, suffix)."""
    positive = text[0] != "-"
    first = 1 if text[0] in "+-" else 0
    first = _span(text, first, "0")
    if first == len(text):
        return positive, "0", "0", "", ""
    point = _span(text, first, "0123456789")
    digits = text[first:point] or "0"
    fraction = ""
    end = point
    if text[point : point + 1] == ".":
        end = _span(text, point + 1, "0123456789")
        fraction = text[point + 1 : end]
    last = _span(text, end, "eEinumkKMGTP")
    if last < len(text) and text[last] in "+-":
        last += 1
    if _span(text, last, "0123456789") < len(text):
        raise QuantityError(_WRONG_FORM)
    return positive, text[:end], digits, fraction, text[end:]


def _suffix(suffix: str) -> tuple[int, Format]:
    """(exponent, format) of a suffix; the exponent is of 2 for BinarySI, else of 10."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], "DecimalSI"
    if suffix in _BINARY:
        return _BINARY[suffix], "BinarySI"
    body = suffix[1:]
    number = body[1:] if body[:1] in ("+", "-") else body
    if suffix[0] in "eE" and number.isdecimal() and number.isascii():
        exponent = int(body)
        if MIN_INT64 <= exponent <= MAX_INT64:
            return (exponent + (1 << 31)) % (1 << 32) - (1 << 31), "DecimalExponent"
    raise QuantityError(_WRONG_SUFFIX)


@lru_cache(maxsize=65536)
def parse(text: str) -> Quantity:
    """The quantity that a text stands for; QuantityError (a ValueError) with upstream's message."""
    if not text:
        raise QuantityError(_WRONG_FORM)
    if len(text) > _SPAN:
        raise QuantityError(_WRONG_NUMBER)
    if text == "0":
        return Quantity(0, 0, "DecimalSI", text=text)
    positive, numeric, digits, fraction, suffix = _split(text)
    exponent, form = _suffix(suffix)
    binary = form == "BinarySI"
    if binary:
        room = -1 if fraction else 14 - len(digits) - exponent * 3 // 10
        scale, factor = 0, 1 << exponent
    else:
        room = 18 - len(digits) - len(fraction)
        scale, factor = exponent - len(fraction), 1
    if room >= 0 and scale >= NANO:
        number = int(digits + fraction)
        settled = number % 1024 if binary else number % 1000 and scale % 3 == 0
        settled = settled and digits != "0"
        value = number * factor if positive else -number * factor
        return Quantity(value, scale, form, text=text if settled else "")
    if not any(char.isdigit() for char in numeric):
        raise QuantityError(_WRONG_NUMBER)
    return _parse_wide(positive, int(digits + fraction) * factor, scale - len(fraction) * binary,
                       form)  # fmt: skip


def _parse_wide(positive: bool, amount: int, scale: int, form: Format) -> Quantity:
    """Rounds up to whole nanos and caps binary amounts at the largest int64."""
    if scale > _SPAN:
        raise QuantityError(_WRONG_NUMBER)
    if scale < NANO:
        amount, _ = _scale_down(amount, NANO - scale)
    else:
        amount *= 10 ** (scale - NANO)
    one, scale = 10**9, NANO
    if form == "BinarySI":
        if amount > MAX_INT64 * one:
            amount, scale = MAX_INT64, 0
        elif 0 < amount < one:
            form = "DecimalSI"
    return Quantity(amount if positive else -amount, scale, form, wide=True)
