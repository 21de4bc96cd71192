"""The widths of a table's columns, and the line breaks in its cells: never inside a name, if avoidable."""

from __future__ import annotations

from collections.abc import Sequence

GAP = 3
"""Blanks between columns."""
SHORTEST = 8
_MOST_LINES = 2
"""The most lines of a cell in a narrow column of a table whose columns all stand side by side."""
_TEXT = 40
"""The width from which a column holds text of any number of lines."""
SEPARATORS = "/-._,:"
"""Behind these a name that is wider than its column breaks."""


def widths(columns: Sequence[Sequence[str]], width: int) -> list[int]:
    """The width of each column, so that all fit side by side in `width`.

    Each has room for its longest word, as long as that is possible; what is left goes to those first that
    need least of it.
    """
    natural = [max(len(cell) for cell in column) for column in columns]
    room = max(width - GAP * len(columns), SHORTEST * len(columns))
    if sum(natural) <= room:
        return natural
    made = [
        min(max(len(word) for cell in column for word in (cell.split() or [""])), most)
        for column, most in zip(columns, natural, strict=True)
    ]
    while sum(made) > room and max(made) > SHORTEST:
        made[made.index(max(made))] -= 1
    left = room - sum(made)
    order = sorted(range(len(made)), key=lambda at: (natural[at] - made[at], at))
    for number, at in enumerate(order):
        share = min(natural[at] - made[at], left // (len(order) - number))
        made[at] += max(share, 0)
        left -= max(share, 0)
    return made


def stacked(columns: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the columns, by index, that are written below their rows because they have no room beside the others.

    None if each column is wide enough for text, or its cells fit in two lines. Else the widest ones, until the rest has
    its natural width; the first column always stays. `columns` are as for `widths`.
    """
    sizes = widths(columns, width)
    if all(
        size >= _TEXT or wrapped(cell, size).count("\n") < _MOST_LINES
        for column, size in zip(columns, sizes, strict=True)
        for cell in column
    ):
        return []
    natural = [max(map(len, column)) for column in columns]
    kept = list(range(len(columns)))
    while len(kept) > 1 and sum(natural[at] + GAP for at in kept) > width:
        kept.remove(max(kept[1:], key=lambda at: (natural[at], at)))
    return [at for at in range(len(columns)) if at not in kept]


def wrapped(text: str, width: int) -> str:
    """The text in lines of this width; what it begins with in blanks, every line does."""
    if len(text) <= width:
        return text
    indent = text[: len(text) - len(text.lstrip())]
    if len(indent) >= width // 2:
        indent = ""
    lines: list[str] = []
    line = indent
    for word in text.split():
        start = line if line == indent else f"{line} "
        if len(start) + len(word) <= width:
            line = start + word
            continue
        if line != indent:
            lines.append(line)
        line = indent
        while len(line) + len(word) > width:
            cut = _cut(word, width - len(line))
            lines.append(line + word[:cut])
            word, line = word[cut:], indent
        line += word
    if line != indent:
        lines.append(line)
    return "\n".join(lines)


def _cut(word: str, width: int) -> int:
    """The part of an overlong word that fits in a line: up to its last separator there."""
    found = max(word.rfind(each, 0, width) for each in SEPARATORS)
    return found + 1 if found > 0 else width
