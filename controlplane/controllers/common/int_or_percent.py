"""Numbers that may be given as a share of a total. Upstream: k8s.io/apimachinery/pkg/util/intstr."""

from __future__ import annotations

import re
from typing import Final

from controlplane.api.validation import parse_int64

IntOrPercent = int | str

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_PREFIX: Final = "invalid value for IntOrString: "


class BadIntOrPercent(ValueError):
    """The text is no percentage."""


def scaled_value(value: IntOrPercent | None, total: int, *, round_up: bool) -> int:
    """A number as it is, a percentage of `total`; 0 when absent. Raises BadIntOrPercent."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        raise BadIntOrPercent(f"{_PREFIX}invalid type: string is not a percentage")
    text = value[:-1]
    if not _INTEGER.fullmatch(text):
        problem = f'strconv.Atoi: parsing "{text}": invalid syntax'
        raise BadIntOrPercent(f'{_PREFIX}invalid value "{value}": {problem}')
    number = parse_int64(text)
    if number is None:
        problem = f'strconv.Atoi: parsing "{text}": value out of range'
        raise BadIntOrPercent(f'{_PREFIX}invalid value "{value}": {problem}')
    product = number * total
    return -(-product // 100) if round_up else product // 100
