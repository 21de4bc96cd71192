"""The program of a container in the emulated shell: length, exit code, output over time."""

import pytest

from controlplane.api.container_inside import Inside
from controlplane.api.times import SECOND
from controlplane.shell.files import Disks, Files
from controlplane.shell.running import START_NS, is_interactive, life_of, outcome_of

NOW = 1_767_225_600 * SECOND


def life(*command, disks=None, **options):
    inside = Inside(
        "u/c",
        "p",
        {"JOB_COMPLETION_INDEX": "2"},
        {},
        command=command,
        layer="layer/1",
        now=NOW,
        **options,
    )
    return life_of(inside, Files(inside, disks or Disks()))


@pytest.mark.parametrize(
    ("command", "seconds", "code", "lines"),
    [
        (("echo", "hi"), 0, 0, [(0, "hi")]),
        (("/bin/false",), 0, 1, []),
        (("sh", "-c", "exit 3"), 0, 3, []),
        (("sleep", "1.5"), 1.5, 0, []),
        (("sh", "-c", "echo a; sleep 2; echo -n b"), 2, 0, [(0, "a"), (2, "b")]),
        (("sh", "-c", "sleep 5 & sleep 3; wait; echo c >&2"), 5, 0, [(5, "c")]),
        (("sh", "-c", "if [ $JOB_COMPLETION_INDEX -ge 2 ]; then exit 1; fi"), 0, 1, []),
        (("sh", "-c", "nothing; $EMPTY nothing"), None, None, None),
        (("bash", "-c", "X=unknown; $X"), 0, 127, [(0, "sh: unknown: not found")]),
        (("sh",), 0, 0, []),
        (("sh", "-c", "if"), 0, 2, [(0, "sh: syntax error: unexpected end of file")]),
    ],
)
def test_a_known_program_is_run(command, seconds, code, lines):
    found = life(*command)
    if code is None:
        assert found is None
        return
    assert (found.run_ns, found.code) == (seconds * SECOND + START_NS, code)
    assert found.lines == [(at * SECOND, text) for at, text in lines]


@pytest.mark.parametrize(
    "command",
    [
        ("sleep", "infinity"),
        ("tail", "-f", "/dev/null"),
        ("sh", "-c", "while true; do sleep 3600; done"),
        ("sh", "-c", "while :; do :; done"),
    ],
)
def test_a_program_without_end_runs_until_it_is_stopped(command):
    found = life(*command)
    assert found.run_ns is None
    assert not found.waits


@pytest.mark.parametrize(
    "command", [(), ("nginx",), ("sh", "-c", "python x.py || true"), ("sh", "/script"), ("-x",)]
)
def test_an_unknown_program_is_not_run(command):
    assert life(*command) is None


def test_a_program_that_reads_its_input_waits_for_a_client():
    assert life("cat", stdin=True).waits
    assert life("sh", "-c", "read x; echo $x", stdin=True).waits
    assert life("sh", stdin=True, tty=True).waits
    assert life(stdin=True, tty=True).waits
    assert not life("echo", "hi", stdin=True).waits
    assert life("cat").run_ns == START_NS
    assert is_interactive(("sh", "-i"))
    assert not is_interactive(("sh", "-c", "x"))


def test_output_is_there_at_its_time():
    found = life("sh", "-c", "for i in 1 2 3; do echo $i; sleep 10; done")
    shown = found.output(NOW + 15 * SECOND, ended=False)
    assert [(line.at, line.text) for line in shown.lines] == [(NOW, "1"), (NOW + 10 * SECOND, "2")]
    assert not shown.ended


@pytest.mark.slow
def test_the_output_of_a_program_is_bounded():
    assert len(life("sh", "-c", "while true; do seq 500; done").lines) <= 10_000
    assert (
        life("sh", "-c", "x=$(seq 20000); echo $x; echo $x; while true; do echo $x; done").size
        < 3 << 20
    )


def test_files_of_a_program_stay_for_the_next_run_where_the_volume_does():
    disks = Disks()
    script = "if [ -e /tmp/seen ]; then exit 0; else touch /tmp/seen; exit 1; fi"
    assert [life("sh", "-c", script, disks=disks).code for _ in range(2)] == [1, 0]


@pytest.mark.parametrize(
    ("script", "left", "falls_back", "told"),
    [
        ("echo -n OK", "OK", True, "OK"),
        ("echo -n DONE; exit 1", "", True, "DONE"),
        ("echo DONE; exit 1", "", True, "DONE\n"),
        ("echo DONE; exit 1", "", False, ""),
        ("echo DONE", "", True, ""),
    ],
)
def test_a_termination_message_is_the_file_or_the_output_of_a_failure(
    script, left, falls_back, told
):
    found = life("sh", "-c", script)
    found.left, found.falls_back = left, falls_back
    assert found.message(found.code) == told


def test_a_termination_message_of_output_is_its_end():
    found = life("sh", "-c", "for n in $(seq 100); do echo line-$n; done; exit 1")
    found.falls_back = True
    assert found.message(1).splitlines()[0] == "line-21"
    found.lines = [(0, "x" * 3000)]
    assert len(found.message(1)) == 2048


@pytest.mark.parametrize(
    ("identity", "words", "told"),
    [
        ({}, ("id",), "uid=0(root) gid=0(root) groups=0(root)"),
        ({"user": 1001}, ("id",), "uid=1001 gid=0(root) groups=0(root)"),
        (
            {"user": 1001, "group": 2002, "groups": (2002, 50)},
            ("id",),
            "uid=1001 gid=2002 groups=2002,50",
        ),
        ({"user": 1001}, ("id", "-u"), "1001"),
        ({"user": 1001, "group": 7, "groups": (7, 50)}, ("id", "-G"), "7 50"),
        ({}, ("whoami",), "root"),
        ({"user": 1001}, ("whoami",), "whoami: unknown uid 1001"),
    ],
)
def test_a_program_runs_as_the_user_of_its_security_context(identity, words, told):
    assert life(*words, **identity).lines == [(0, told)]


def test_a_root_file_system_that_is_only_read_takes_no_file_and_the_script_goes_on():
    found = life("/bin/sh", "-c", "echo a > /file; echo b > /dev/null; sleep 2", read_only=True)
    assert found.lines == [(0, "/bin/sh: can't create /file: Read-only file system")]
    assert found.run_ns == 2 * SECOND + START_NS


def written(disks):
    return {path: data for files in disks.places.values() for path, data in files.items()}


def test_what_a_program_writes_after_it_has_slept_is_written_when_that_time_comes():
    disks = Disks()
    found = life(
        "sh", "-c", "echo a > /f; sleep 5; echo b > /g; rm /f; sleep 2; cat /g", disks=disks
    )
    assert written(disks) == {"f": b"a\n"}
    assert [(each.at, each.path, each.data) for each in found.writes] == [
        (5 * SECOND, "g", b"b\n"),
        (5 * SECOND, "f", None),
    ]
    assert found.lines == [(7 * SECOND, "b")]


def test_writes_in_the_background_come_in_the_order_of_time():
    found = life("sh", "-c", "(sleep 9; echo late > /a) & sleep 3; echo soon > /b")
    assert [(each.at // SECOND, each.path) for each in found.writes] == [(3, "b"), (9, "a")]


@pytest.mark.parametrize(
    ("words", "code", "said", "timed_out"),
    [
        (("cat", "/f"), 0, "text", False),
        (("sh", "-c", "echo a; echo b >&2; exit 7"), 7, "a\nb\n", False),
        (("sleep", "3"), 0, "", True),
        (("sleep", "infinity"), 1, "", True),
        (("sh", "-c", "while :; do :; done"), 1, "", True),
        (("sh", "-c", "echo ${X?no}"), 2, "sh: X: no\n", False),
    ],
)
def test_a_command_beside_the_program_has_an_outcome(words, code, said, timed_out):
    inside = Inside("u/c", "p", {}, {"/f": b"text"}, layer="layer/1", now=NOW)
    found = outcome_of(inside, Files(inside), words, 2 * SECOND)
    assert (found.code, found.said, found.timed_out) == (code, said, timed_out)
