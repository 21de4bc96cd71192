"""Programs of the emulated shell over text: filters of lines, and those that print."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from controlplane.api.validation import parse_int64
from controlplane.shell.shell import COMMAND, Shell
from controlplane.shell.streams import Exhausted, Forever, Input, Ran, check_output

__all__ = ["FILTERS", "Filter", "cat", "echo", "escaped", "formatted", "lines_of"]

Filter = Callable[[Shell, list[str], Input], Ran]
LINES: Final = 1_000_000
"""The maximum number of lines that `seq` writes."""


def cat(shell: Shell, words: list[str], given: Input) -> Ran:
    """`cat FILE...`; `-` and no file are the input."""
    out, err, code = bytearray(), bytearray(), 0
    for word in words or ["-"]:
        path = shell.path(word)
        data = given.rest() if word == "-" else shell.read(path)
        if data is not None:
            shell.spend(COMMAND, 2 * len(data))
            out += data
            check_output(len(out))
        else:
            why = "Is a directory" if shell.is_folder(path) else "No such file or directory"
            shell.spend(COMMAND, len(word))
            err += f"cat: {word}: {why}\n".encode()
            code = 1
    return Ran(bytes(out), bytes(err), code)


_ESCAPES: Final = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "\\": "\\",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
}


def escaped(text: str) -> str:
    r"""Return a text with its escapes (`\n`, `\t`, `\033`) in place."""

    def one(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 8) & 255)
        return _ESCAPES.get(found[2], found[0])

    return re.sub(r"\\(?:0?([0-7]{1,3})|(.))", one, text, flags=re.DOTALL)


def echo(shell: Shell, words: list[str], _given: Input) -> Ran:
    """`echo [-n] [-e] WORD...`."""
    newline, interprets = "\n", False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        if "n" in words[0]:
            newline = ""
        interprets = "e" in words[0] or interprets
        words = words[1:]
    shell.spend(1, sum(map(len, words)))
    text = " ".join(words)
    return Ran(((escaped(text) if interprets else text) + newline).encode())


_DIRECTIVE: Final = re.compile(r"%([-+ 0#]{0,5})(\d{0,3})(?:\.(\d{0,3}))?([sdiuxXocbfeg%])")


def formatted(shell: Shell, words: list[str], _given: Input) -> Ran:
    """`printf FORMAT WORD...`: the format is used again while there are words."""
    if not words:
        return Ran(err=b"printf: usage: printf format [arguments]\n", code=2)
    form, rest = escaped(words[0]), words[1:]
    out, failed = "", ""
    while True:
        left = list(rest)

        def one(found: re.Match[str], left: list[str] = left) -> str:
            nonlocal failed
            flags, width, precision, kind = found.groups()
            if kind == "%":
                return "%"
            word = left.pop(0) if left else ""
            spec = f"%{flags}{width}" + (f".{precision}" if precision is not None else "")
            if kind in "scb":
                return str(
                    (spec + "s")
                    % (escaped(word) if kind == "b" else word[:1] if kind == "c" else word)
                )
            try:
                if kind in "feg":
                    return str((spec + kind) % float(word or "0"))
                return str(
                    (spec + ("d" if kind in "iu" else kind)) % (parse_int64(word or "0") or 0)
                )
            except (ValueError, OverflowError):
                failed = f"printf: {word}: invalid number\n"
                return "0"

        shell.spend(COMMAND, len(form))
        out += _DIRECTIVE.sub(one, form)
        check_output(len(out))
        if not left or len(left) == len(rest):
            return Ran(out.encode(), failed.encode(), int(bool(failed)))
        rest = left


def lines_of(shell: Shell, words: list[str], given: Input) -> tuple[list[str], Ran]:
    """The lines of files, or of the input where no file is named; and what `cat` says of missing ones."""
    ran = cat(shell, words, given)
    return ran.out.decode("utf-8", "replace").splitlines(), ran


def _ended(name: str, lines: list[str], ran: Ran) -> Ran:
    """The answer of a filter over files: its lines, and the complaints about files under its own name."""
    text = "".join(f"{line}\n" for line in lines)
    return Ran(text.encode(), ran.err.replace(b"cat: ", f"{name}: ".encode()), ran.code)


def _count(words: list[str], default: int) -> tuple[int, list[str]]:
    """Take `-n N`, `-nN` or `-N` from the front of some words."""
    if words[:1] == ["-n"] and len(words) > 1:
        return parse_int64(words[1]) or 0, words[2:]
    if words and re.fullmatch(r"-n?\d+", words[0]):
        return parse_int64(words[0].lstrip("-n")) or 0, words[1:]
    return default, words


def _head(shell: Shell, words: list[str], given: Input) -> Ran:
    count, words = _count(words, 10)
    lines, ran = lines_of(shell, words, given)
    return _ended("head", lines[:count], ran)


def _tail(shell: Shell, words: list[str], given: Input) -> Ran:
    follows = [word for word in words if word in ("-f", "-F")]
    count, words = _count([word for word in words if word not in follows], 10)
    lines, ran = lines_of(shell, words, given)
    found = _ended("tail", lines[-count:] if count else [], ran)
    if follows and shell.as_program and not ran.code:
        raise Forever(found.out)
    return found


def _grep(shell: Shell, words: list[str], given: Input) -> Ran:
    """Lines with a fixed text: patterns are not interpreted, so that none takes long."""
    flags = "".join(word[1:] for word in words if word.startswith("-"))
    words = [word for word in words if not word.startswith("-")]
    if not words:
        return Ran(err=b"grep: no pattern\n", code=2)
    lines, ran = lines_of(shell, words[1:], given)
    wanted = words[0].lower() if "i" in flags else words[0]
    starts, ends = wanted.startswith("^"), wanted.endswith("$")
    wanted = wanted.removeprefix("^").removesuffix("$")

    def matches(line: str) -> bool:
        text = line.lower() if "i" in flags else line
        if starts and ends:
            return text == wanted
        if starts:
            return text.startswith(wanted)
        return text.endswith(wanted) if ends else wanted in text

    shell.spend(2 * len(lines))
    found = [line for line in lines if matches(line) != ("v" in flags)]
    shown = [str(len(found))] if "c" in flags else [] if "q" in flags else found
    answer = _ended("grep", shown, ran)
    return Ran(answer.out, answer.err, 2 if ran.code else int(not found))


def _sort(shell: Shell, words: list[str], given: Input) -> Ran:
    flags = "".join(word[1:] for word in words if word.startswith("-"))
    lines, ran = lines_of(shell, [word for word in words if not word.startswith("-")], given)
    shell.spend(4 * len(lines))
    lines = sorted({*lines} if "u" in flags else lines, reverse="r" in flags)
    return _ended("sort", lines, ran)


def _wc(shell: Shell, words: list[str], given: Input) -> Ran:
    flags = "".join(word[1:] for word in words if word.startswith("-"))
    ran = cat(shell, [word for word in words if not word.startswith("-")], given)
    shell.spend(1, len(ran.out))
    counts = {"l": ran.out.count(b"\n"), "w": len(ran.out.split()), "c": len(ran.out)}
    shown = [str(counts[each]) for each in "lwc" if each in flags] or [str(counts["l"])]
    return _ended("wc", [" ".join(shown)], ran)


def _uniq(shell: Shell, words: list[str], given: Input) -> Ran:
    lines, ran = lines_of(shell, [word for word in words if not word.startswith("-")], given)
    shell.spend(2 * len(lines))
    runs: list[list[str]] = []
    for line in lines:
        if runs and runs[-1][0] == line:
            runs[-1].append(line)
        else:
            runs.append([line])
    counted = "-c" in words
    return _ended(
        "uniq", [f"{len(each):7d} {each[0]}" if counted else each[0] for each in runs], ran
    )


def _cut(shell: Shell, words: list[str], given: Input) -> Ran:
    """`cut -d X -f LIST` and `cut -c LIST`."""
    options: dict[str, str] = {}
    files: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word[:1] == "-" and len(word) > 1:
            attached = word[2:]
            options[word[1]] = attached or (words[at + 1] if at + 1 < len(words) else "")
            at += 1 if attached else 2
        else:
            files.append(word)
            at += 1
    ranges = []
    for part in (options.get("f") or options.get("c") or "").split(","):
        first, dash, last = part.partition("-")
        begin = parse_int64(first) or 1
        ranges.append((begin, (parse_int64(last) or LINES) if dash else begin))
    lines, ran = lines_of(shell, files, given)
    shell.spend(4 * len(lines))
    mark = options.get("d", "\t")

    def chosen(line: str) -> str:
        if "c" in options:
            return "".join(line[begin - 1 : end] for begin, end in ranges)
        parts = line.split(mark) if mark else [line]
        if len(parts) == 1:
            return line
        return mark.join(each for begin, end in ranges for each in parts[begin - 1 : end])

    return _ended("cut", [chosen(line) for line in lines], ran)


def _tr(shell: Shell, words: list[str], given: Input) -> Ran:
    """`tr FROM TO`, `tr -d SET`."""
    data = given.rest().decode("utf-8", "replace")
    shell.spend(1, 4 * len(data))
    deletes = words[:1] == ["-d"]
    sets = [_characters(escaped(word)) for word in words if word not in ("-d", "-s")]
    if not sets or (len(sets) < 2 and not deletes):
        return Ran(err=b"tr: missing operand\n", code=1)
    if deletes:
        return Ran(data.translate({ord(char): None for char in sets[0]}).encode())
    source, target = sets[0], sets[1] or " "
    table = {ord(char): target[min(at, len(target) - 1)] for at, char in enumerate(source)}
    return Ran(data.translate(table).encode())


_CLASSES: Final = {
    "[:upper:]": "A-Z",
    "[:lower:]": "a-z",
    "[:digit:]": "0-9",
    "[:space:]": " \t\n\r",
    "[:alpha:]": "A-Za-z",
}


def _characters(text: str) -> str:
    for name, stands_for in _CLASSES.items():
        text = text.replace(name, stands_for)

    def spread(found: re.Match[str]) -> str:
        return "".join(map(chr, range(ord(found[1]), min(ord(found[2]), ord(found[1]) + 256) + 1)))

    return re.sub(r"(.)-(.)", spread, text)


def _sed(shell: Shell, words: list[str], given: Input) -> Ran:
    """`sed s/TEXT/TEXT/[g]` with a fixed text, and `sed -n Np`: patterns are not interpreted."""
    quiet = "-n" in words
    words = [word for word in words if word not in ("-n", "-e", "-E", "-r")]
    if not words:
        return Ran(err=b"sed: no script\n", code=1)
    script, files = words[0], words[1:]
    lines, ran = lines_of(shell, files, given)
    shell.spend(2 * len(lines))
    printed = re.fullmatch(r"(\d{1,9})(?:,(\d{1,9}|\$))?([pdq])", script)
    if printed:
        first = int(printed[1])
        last = first if not printed[2] else len(lines) if printed[2] == "$" else int(printed[2])
        if printed[3] == "q":
            return _ended("sed", lines[:first], ran)
        inside = lines[first - 1 : last]
        left = [*lines[: first - 1], *lines[last:]]
        return _ended("sed", left if printed[3] == "d" else inside if quiet else lines, ran)
    parts = script[2:].split(script[1]) if script[:1] == "s" and len(script) > 2 else []
    if len(parts) != 3 or any(char in parts[0] for char in "*[]\\"):
        raise Exhausted(
            f"{script}: only s/TEXT/TEXT/ with a fixed text, and line numbers, are emulated"
        )
    before, after, flags = parts
    times = -1 if "g" in flags else 1

    def changed(line: str) -> str:
        if before.startswith("^"):
            return after + line[len(before) - 1 :] if line.startswith(before[1:]) else line
        if before.endswith("$"):
            return (
                line[: len(line) - len(before) + 1] + after if line.endswith(before[:-1]) else line
            )
        return line.replace(before, after, times) if before else line

    return _ended("sed", [changed(line) for line in lines], ran)


def _seq(shell: Shell, words: list[str], _given: Input) -> Ran:
    numbers = [parse_int64(word) for word in words]
    if not numbers or len(numbers) > 3 or None in numbers:
        return Ran(err=b"seq: usage: seq [first [step]] last\n", code=1)
    first, last = (1, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[-1])
    step = numbers[1] if len(numbers) == 3 else 1
    assert first is not None and last is not None and step is not None
    if not step:
        return Ran(err=b"seq: step is 0\n", code=1)
    count = max(0, (last - first) // step + 1)
    if count > LINES:
        raise Exhausted(f"more than {LINES} lines")
    shell.spend(1 + count)
    return Ran("".join(f"{first + step * at}\n" for at in range(count)).encode())


def _expr(shell: Shell, words: list[str], _given: Input) -> Ran:
    """`expr`: arithmetic and comparisons of one expression, and `length`."""
    from controlplane.shell.arithmetic import ArithmeticFailure, evaluated

    if words[:1] == ["length"] and len(words) == 2:
        return Ran(f"{len(words[1])}\n".encode())
    if len(words) == 3 and words[1] in ("=", "!="):
        value = int((words[0] == words[2]) == (words[1] == "="))
    else:
        shell.spend(2 * sum(map(len, words)))
        try:
            value = evaluated(" ".join(words), lambda _: _no_number(), lambda _name, _value: None)
        except ArithmeticFailure:
            return Ran(err=b"expr: syntax error\n", code=2)
    return Ran(f"{value}\n".encode(), code=int(not value))


def _no_number() -> str:
    from controlplane.shell.arithmetic import ArithmeticFailure

    raise ArithmeticFailure("expr: non-numeric argument")


def _base64(shell: Shell, words: list[str], given: Input) -> Ran:
    import base64
    import binascii

    ran = cat(shell, [word for word in words if not word.startswith("-")], given)
    shell.spend(1, 4 * len(ran.out))
    if "-d" not in words and "--decode" not in words:
        return Ran(base64.b64encode(ran.out) + b"\n", ran.err, ran.code)
    try:
        return Ran(base64.b64decode(ran.out), ran.err, ran.code)
    except binascii.Error:
        return Ran(err=b"base64: invalid input\n", code=1)


FILTERS: Final[dict[str, Filter]] = {
    "base64": _base64,
    "cat": cat,
    "cut": _cut,
    "echo": echo,
    "expr": _expr,
    "grep": _grep,
    "head": _head,
    "printf": formatted,
    "sed": _sed,
    "seq": _seq,
    "sort": _sort,
    "tail": _tail,
    "tr": _tr,
    "uniq": _uniq,
    "wc": _wc,
}
