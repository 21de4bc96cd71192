"""The programs and built-in commands of the emulated shell, by name."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Any, Final

from controlplane.api.cgroups import MOUNTED
from controlplane.api.container_inside import Inside
from controlplane.api.times import SECOND
from controlplane.api.validation import parse_int64
from controlplane.shell.archives import tar
from controlplane.shell.files import Files
from controlplane.shell.shell import COMMAND, Shell
from controlplane.shell.streams import Forever, Input, Ran, Streams, check_output
from controlplane.shell.testing import test
from controlplane.shell.text_programs import FILTERS, Filter

__all__ = ["PROGRAMS", "Program", "seconds_of", "shell_of"]

Program = Callable[[Shell, list[str], Streams], int]
"""Runs with the words of its command, its own name the first."""


def _plain(run: Filter) -> Program:
    """A program that writes all of its output at its end."""

    def program(shell: Shell, words: list[str], streams: Streams) -> int:
        ran = run(shell, words[1:], streams.given)
        streams.out.write(ran.out)
        streams.err.write(ran.err)
        return ran.code

    return program


def _line(text: str) -> Ran:
    return Ran(f"{text}\n".encode())


# ---------------------------------------------------------------------- files


def _ls(shell: Shell, words: list[str], _given: Input) -> Ran:
    out, err, code = "", "", 0
    for word in [word for word in words if not word.startswith("-")] or ["."]:
        path = shell.path(word)
        shell.spend(COMMAND)
        if shell.read(path) is not None:
            out += f"{word}\n"
        elif shell.is_folder(path):
            base = path.rstrip("/") + "/"
            names = {
                each[len(base) :].split("/")[0]
                for each in (*shell.entries(), *shell.inside.folders)
                if each.startswith(base)
            }
            names.discard("")
            if "-a" not in words and "-la" not in words:
                names = {each for each in names if not each.startswith(".")}
            shell.spend(2 * len(names))
            out += "".join(f"{name}\n" for name in sorted(names))
            check_output(len(out))
        else:
            err, code = err + f"ls: {word}: No such file or directory\n", 1
    return Ran(out.encode(), err.encode(), code)


def _mkdir(shell: Shell, words: list[str], _given: Input) -> Ran:
    parents = any(word.startswith("-") and "p" in word for word in words)
    err = ""
    for word in [word for word in words if not word.startswith("-")]:
        path = shell.path(word)
        shell.spend(COMMAND)
        if shell.read(path) is not None or (not parents and shell.is_folder(path)):
            err += f"mkdir: can't create directory '{word}': File exists\n"
        elif not shell.is_folder(path):
            shell.make_folder(path)
    return Ran(err=err.encode(), code=int(bool(err)))


def _touch(shell: Shell, words: list[str], _given: Input) -> Ran:
    for word in [word for word in words if not word.startswith("-")]:
        path = shell.path(word)
        if shell.read(path) is None:
            shell.keep(path, b"")
    return Ran()


def _rm(shell: Shell, words: list[str], _given: Input) -> Ran:
    flags = "".join(word[1:] for word in words if word.startswith("-"))
    err = ""
    for word in [word for word in words if not word.startswith("-")]:
        path = shell.path(word)
        found = [each for each in shell.entries() if each == path or each.startswith(f"{path}/")]
        shell.spend(COMMAND, 64 * len(found))
        for each in found:
            shell.remove(each)
        if not found and "f" not in flags:
            err += f"rm: can't remove '{word}': No such file or directory\n"
    return Ran(err=err.encode(), code=int(bool(err)))


def _copy(shell: Shell, words: list[str], *, removes: bool) -> Ran:
    names = [word for word in words if not word.startswith("-")]
    program = "mv" if removes else "cp"
    if len(names) < 2:
        return Ran(err=f"{program}: missing operand\n".encode(), code=1)
    target = shell.path(names[-1])
    into = shell.is_folder(target)
    err = ""
    for name in names[:-1]:
        path = shell.path(name)
        end = f"{target.rstrip('/')}/{posixpath.basename(path)}" if into else target
        data = shell.read(path)
        inside = (
            {}
            if data is not None
            else {
                each: content
                for each, content in shell.all_files().items()
                if each.startswith(f"{path}/")
            }
        )
        if data is not None:
            inside = {path: data}
        if not inside:
            err += f"{program}: can't stat '{name}': No such file or directory\n"
        for each, content in inside.items():
            shell.spend(COMMAND, len(content))
            shell.keep(end + each[len(path) :], content)
            if removes:
                shell.remove(each)
    return Ran(err=err.encode(), code=int(bool(err)))


def _tee(shell: Shell, words: list[str], given: Input) -> Ran:
    data = given.rest()
    for word in [word for word in words if not word.startswith("-")]:
        path = shell.path(word)
        before = (shell.read(path) or b"") if "-a" in words else b""
        shell.spend(COMMAND, len(before) + len(data))
        shell.keep(path, before + data)
    return Ran(data)


def _find(shell: Shell, words: list[str], _given: Input) -> Ran:
    """`find [PATH...]`, with `-name PATTERN` and `-type f`."""
    from controlplane.shell.words import matches

    paths: list[str] = []
    for word in words:
        if word.startswith("-"):
            break
        paths.append(word)
    pattern = words[words.index("-name") + 1] if "-name" in words[:-1] else "*"
    out = ""
    for path in paths or ["."]:
        base = shell.path(path)
        for each in sorted(shell.all_files()):
            if (each == base or each.startswith(base.rstrip("/") + "/")) and matches(
                posixpath.basename(each), pattern
            ):
                out += f"{path.rstrip('/')}{each[len(base.rstrip('/')) :]}\n"
                shell.spend(2)
    check_output(len(out))
    return Ran(out.encode())


def _env(shell: Shell, words: list[str], _given: Input) -> Ran:
    if words:
        values = [shell.env.get(word) for word in words]
        text = "".join(f"{value}\n" for value in values if value is not None)
        return Ran(text.encode(), code=0 if all(value is not None for value in values) else 1)
    shell.spend(2 * len(shell.env), sum(map(len, shell.env.values())))
    return Ran("".join(f"{key}={value}\n" for key, value in sorted(shell.env.items())).encode())


# ---------------------------------------------------------------------- built-in commands


def _export(shell: Shell, words: list[str], _given: Input) -> Ran:
    for key, is_set, value in (word.partition("=") for word in words):
        if is_set:
            shell.set_variable(key, value)
    return Ran()


def _unset(shell: Shell, words: list[str], _given: Input) -> Ran:
    for word in words:
        shell.env.pop(word, None)
    return Ran()


def _cd(shell: Shell, words: list[str], _given: Input) -> Ran:
    name = words[0] if words else shell.env.get("HOME", "/")
    path = shell.path(name)
    if not shell.is_folder(path):
        return Ran(err=f"sh: cd: {name}: No such file or directory\n".encode(), code=1)
    shell.directory = path
    return Ran()


def _exit(shell: Shell, words: list[str], _streams: Streams) -> int:
    shell.leave(_number(words, shell.code), function=words[0] == "return")
    return 0


def _jump(shell: Shell, words: list[str], _streams: Streams) -> int:
    shell.jump(again=words[0] == "continue", levels=_number(words, 1))
    return 0


def _number(words: list[str], default: int) -> int:
    found = parse_int64(words[1]) if len(words) > 1 else default
    return 0 if found is None else found


def _shift(shell: Shell, words: list[str], _streams: Streams) -> int:
    return int(not shell.shift(max(0, _number(words, 1))))


def _set(shell: Shell, words: list[str], _given: Input) -> Ran:
    """`set -e`, `set -o pipefail`, `set -- WORD...`."""
    rest = list(words)
    while rest and rest[0][:1] in ("-", "+") and len(rest[0]) > 1:
        flag = rest.pop(0)
        if flag == "--":
            shell.set_arguments(rest)
            return Ran()
        for letter in flag[1:]:
            shell.set_flag(letter, on=flag[0] == "-")
        if flag.endswith("o") and rest:
            shell.set_flag("e" if rest.pop(0) == "errexit" else "", on=flag[0] == "-")
    if rest:
        shell.set_arguments(rest)
    return Ran()


def _read(shell: Shell, words: list[str], streams: Streams) -> int:
    line = streams.given.line()
    names = [word for word in words[1:] if not word.startswith("-")] or ["REPLY"]
    text = "" if line is None else line.decode("utf-8", "replace").rstrip("\n")
    shell.spend(1, len(text))
    parts = text.split(None, len(names) - 1) if len(names) > 1 else [text.strip()]
    for at, name in enumerate(names):
        shell.set_variable(name, parts[at] if at < len(parts) else "")
    return int(line is None or not line.endswith(b"\n"))


def _eval(shell: Shell, words: list[str], streams: Streams) -> int:
    return shell.source(" ".join(words[1:]), streams)


def _source(shell: Shell, words: list[str], streams: Streams) -> int:
    data = shell.read(shell.path(words[1])) if len(words) > 1 else None
    if data is None:
        streams.err.write(f"sh: {' '.join(words)}: not found\n".encode())
        return 2
    return shell.source(data.decode("utf-8", "replace"), streams)


def _exec(shell: Shell, words: list[str], streams: Streams) -> int:
    if len(words) > 1:
        shell.leave(_others(shell, words[1:], streams))
    return 0


def _others(shell: Shell, words: list[str], streams: Streams) -> int:
    """Run the command that a command names."""
    if not shell.has(words[0]):
        streams.err.write(f"sh: {words[0]}: not found\n".encode())
        return 127
    return shell.command(words, streams)


def _command(shell: Shell, words: list[str], streams: Streams) -> int:
    if words[1:2] in (["-v"], ["-V"]):
        found = [word for word in words[2:] if shell.has(word)]
        streams.out.write("".join(f"{word}\n" for word in found).encode())
        return int(not found)
    return _others(shell, words[1:], streams) if len(words) > 1 else 0


def _timeout(shell: Shell, words: list[str], streams: Streams) -> int:
    """`timeout SECONDS COMMAND...`: 124 where the command sleeps for longer."""
    limit = seconds_of(words[1]) if len(words) > 2 else None
    if limit is None:
        streams.err.write(b"timeout: usage: timeout SECONDS COMMAND\n")
        return 125
    began = shell.slept_ns
    try:
        code = _others(shell, words[2:], streams)
    except Forever:
        code, shell.slept_ns = 124, began + limit
    if shell.slept_ns - began > limit:
        code, shell.slept_ns = 124, began + limit
    return code


def _sleep(shell: Shell, words: list[str], streams: Streams) -> int:
    if words[1:] in (["infinity"], ["inf"]):
        if shell.as_program:
            raise Forever
        return 0
    times = [seconds_of(word) for word in words[1:]]
    if not times or None in times:
        streams.err.write(f"sleep: invalid number '{' '.join(words[1:])}'\n".encode())
        return 1
    shell.sleep(sum(each for each in times if each is not None))
    return 0


def _awk(shell: Shell, words: list[str], streams: Streams) -> int:
    from controlplane.shell.awk.running import (
        awk,
    )  # the language is loaded with the first program in it

    return awk(shell, words, streams)


_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds_of(text: str) -> int | None:
    """Return a number of seconds such as 1.5, 10s or 2m in nanoseconds; None for anything else."""
    unit = _UNITS.get(text[-1:], 0)
    whole, _, fraction = (text[:-1] if unit else text).partition(".")
    digits = whole + fraction
    if not (digits.isascii() and digits.isdecimal()) or len(fraction) > 9 or len(whole) > 10:
        return None
    return (int(whole or 0) * SECOND + int(fraction.ljust(9, "0"))) * (unit or 1)


def _wait(shell: Shell, _words: list[str], _given: Input) -> Ran:
    shell.wait()
    return Ran()


# ---------------------------------------------------------------------- the system


def _ps(shell: Shell, words: list[str], _given: Input) -> Ran:
    """The container's program as process 1, those of the session, and `ps` itself."""
    lines = ["PID   USER     TIME  COMMAND"]
    every = [*shell.processes, " ".join(["ps", *words])]
    lines += [f"{number:5d} root      0:00 {text}" for number, text in enumerate(every, 1)]
    return _line("\n".join(lines))


def _date(shell: Shell, words: list[str], _given: Input) -> Ran:
    """`date` and `date +FORMAT` (%s, %N, %F, %T, %Y, %m, %d, %H, %M, %S), in UTC."""
    import datetime

    form = next((word[1:] for word in words if word.startswith("+")), "")
    whole, nanoseconds = divmod(shell.now, SECOND)
    at = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(
        seconds=min(whole, 1 << 36)
    )
    if not form:
        return _line(at.strftime("%a %b %e %H:%M:%S UTC %Y"))
    values = {
        "s": str(whole),
        "N": f"{nanoseconds:09d}",
        "F": at.strftime("%Y-%m-%d"),
        "T": at.strftime("%H:%M:%S"),
        **{each: at.strftime(f"%{each}") for each in "YmdHMS"},
        "n": "\n",
        "%": "%",
    }
    out, at_char = "", 0
    while at_char < len(form):
        if form[at_char] == "%" and form[at_char + 1 : at_char + 2] in values:
            out += values[form[at_char + 1]]
            at_char += 2
        else:
            out += form[at_char]
            at_char += 1
    return _line(out)


def _xargs(shell: Shell, words: list[str], streams: Streams) -> int:
    given = streams.given.rest().decode("utf-8", "replace").split()
    return _others(
        shell, [*(words[1:] or ["echo"]), *given], Streams(Input(), streams.out, streams.err)
    )


def _id(shell: Shell, words: list[str], _given: Input) -> Ran:
    inside = shell.inside
    groups = inside.groups or (inside.group,)
    flags = "".join(word[1:] for word in words if word.startswith("-"))
    if "u" in flags:
        return _line(str(inside.user))
    if "g" in flags:
        return _line(str(inside.group))
    if "G" in flags:
        return _line(" ".join(map(str, groups)))
    shown = ",".join(_named(each) for each in groups)
    return _line(f"uid={_named(inside.user)} gid={_named(inside.group)} groups={shown}")


def _named(number: int) -> str:
    return f"{number}(root)" if number == 0 else str(number)


def _whoami(shell: Shell, _words: list[str], _given: Input) -> Ran:
    if shell.inside.user == 0:
        return _line("root")
    return Ran(err=f"whoami: unknown uid {shell.inside.user}\n".encode(), code=1)


_PLAIN: Final[dict[str, Filter]] = {
    **FILTERS,
    ":": lambda *_: Ran(),
    "basename": lambda _shell, words, _given: _line(
        posixpath.basename(words[0].rstrip("/")).removesuffix(words[1] if len(words) > 1 else "")
        if words
        else ""
    ),
    "cd": _cd,
    "chmod": lambda *_: Ran(),
    "chown": lambda *_: Ran(),
    "cp": lambda shell, words, _given: _copy(shell, words, removes=False),
    "date": _date,
    "dirname": lambda _shell, words, _given: _line(
        posixpath.dirname(words[0]) or "." if words else "."
    ),
    "env": lambda shell, _words, given: _env(shell, [], given),
    "export": _export,
    "false": lambda *_: Ran(code=1),
    "find": _find,
    "hostname": lambda shell, *_: _line(shell.inside.hostname),
    "id": _id,
    "local": _export,
    "ls": _ls,
    "mkdir": _mkdir,
    "mount": lambda _shell, words, _given: _line(MOUNTED) if "cgroup2" in words else Ran(),
    "mv": lambda shell, words, _given: _copy(shell, words, removes=True),
    "nproc": lambda *_: _line("1"),
    "printenv": _env,
    "ps": _ps,
    "pwd": lambda shell, *_: _line(shell.directory),
    "readonly": _export,
    "rm": _rm,
    "set": _set,
    "sync": lambda *_: Ran(),
    "tar": tar,
    "tee": _tee,
    "touch": _touch,
    "trap": lambda *_: Ran(),
    "true": lambda *_: Ran(),
    "umask": lambda *_: Ran(),
    "uname": lambda *_: _line("Linux"),
    "unset": _unset,
    "wait": _wait,
    "whoami": _whoami,
}
PROGRAMS: Final[dict[str, Program]] = {
    **{name: _plain(run) for name, run in _PLAIN.items()},
    ".": _source,
    "[": test,
    "[[": test,
    "awk": _awk,
    "break": _jump,
    "command": _command,
    "continue": _jump,
    "eval": _eval,
    "exec": _exec,
    "exit": _exit,
    "read": _read,
    "return": _exit,
    "shift": _shift,
    "sleep": _sleep,
    "source": _source,
    "test": test,
    "timeout": _timeout,
    "xargs": _xargs,
}


def shell_of(inside: Inside, files: Files | None = None, **more: Any) -> Shell:
    """Return a shell with all programs, in one container; `more` are further attributes of `Shell`."""
    return Shell(inside, files, programs=PROGRAMS, **more)  # type: ignore[arg-type]
