"""Errors that mean wrong input rather than a defect, and the wording that they share."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Final

_SHOWN: Final = 100
_NEAR: Final = 3
_CLOSE: Final = 0.6
"""The least similarity of two names (0 to 1, as difflib measures it) at which one may be meant for the other."""
_LISTED: Final = 300
"""Letters of a list of all known names, beyond which it is left out."""


def shown(value: object) -> str:
    """A value as an error quotes it: one line, and of a long one the beginning."""
    if isinstance(value, str):
        value = value[: _SHOWN + 1]
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def nearest(name: str, known: Iterable[str], most: int = _NEAR) -> list[str]:
    """Return the known names that are most like an unknown one, the most similar first; case does not matter."""
    wanted = name[:_SHOWN].lower()
    if not wanted:
        return []
    matcher = SequenceMatcher()
    matcher.set_seq2(wanted)
    ranked: list[tuple[float, str]] = []
    for each in dict.fromkeys(known):
        lowered = each.lower()
        matcher.set_seq1(lowered)
        begins = len(wanted) > 2 and (lowered.startswith(wanted) or wanted.startswith(lowered))
        if begins and lowered:
            ranked.append((1.0, each))
        elif matcher.real_quick_ratio() >= _CLOSE and matcher.quick_ratio() >= _CLOSE:
            ratio = matcher.ratio()
            if ratio >= _CLOSE:
                ranked.append((ratio, each))
    ranked.sort(key=lambda found: (-found[0], found[1]))
    return [each for _, each in ranked[:most]]


def unknown_name(what: str, name: object, known: Iterable[str], listing: str = "") -> str:
    """Return the message for a name that is not known: one line with the nearest names.

    Args:
        what: the kind of name, as "strategy" or "fix gate".
        name: the name that was given.
        known: all names that are known.
        listing: how to list them, as "controlplane race list names all"; without it the names themselves are
            listed if no name is near and they fit.
    """
    names = list(dict.fromkeys(known))
    near = nearest(name, names) if isinstance(name, str) else []
    text = f"no {what} {shown(name)}"
    if near:
        return f"{text}; did you mean {either(near)}?" + (f" ({listing})" if listing else "")
    if listing:
        return f"{text}; {listing}"
    every = ", ".join(names)
    return f"{text}; known: {every}" if every and len(every) <= _LISTED else text


def either(names: list[str]) -> str:
    """Return "a", "a or b", "a, b or c"."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def plural(number: int, noun: str, form: str = "") -> str:
    """Return a number with its noun: "1 pod", "2 pods"; `form` is the plural where an s does not make it."""
    return f"{number:,} {noun if number == 1 else form or f'{noun}s'}"


class UsageError(Exception):
    """Bad input. Its text is one line that names the place and what was expected."""
