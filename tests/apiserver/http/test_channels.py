"""The emulated shell, and the channels on which exec speaks with it."""

import io
import json
import tarfile

import pytest

from controlplane.api.container_inside import Inside, inside_of
from controlplane.apiserver.http.channels import PROTOCOLS, Session, chosen_protocol
from controlplane.shell.programs import shell_of

V5, V4 = PROTOCOLS[:2]


def shell(**files):
    named = {f"/data/{name}": text.encode() for name, text in files.items()}
    return shell_of(Inside("uid/c", "web-0", {"A": "one", "B": "two words"}, named))


@pytest.mark.parametrize(
    ("script", "out", "code"),
    [
        ("echo hi", "hi\n", 0),
        ("echo -n $A", "one", 0),
        ("echo '$A' \"$A ${B}\"", "$A one two words\n", 0),
        ("false && echo no || echo yes; echo $?", "yes\n0\n", 0),
        ("cat /data/a | wc", "2\n", 0),
        ("ls /data", "a\nb\n", 0),
        ("cd /data && pwd && cat a", "/data\nx\ny\n", 0),
        ("echo new > /tmp/f; echo more >> /tmp/f; cat /tmp/f", "new\nmore\n", 0),
        ("rm /data/a; test -f /data/a || echo gone", "gone\n", 0),
        ("X=5; echo $X; hostname; exit 7; echo never", "5\nweb-0\n", 7),
        ("printenv A", "one\n", 0),
        ("[ -d /data ] && [ a = a ] && echo both", "both\n", 0),
        ("cat /none", "", 1),
        ("cat /data/a /data/a | head -1", "x\n", 0),
        ("head -n 1 /data/a", "x\n", 0),
        ("tail -1 /data/a", "y\n", 0),
        ("head /none", "", 1),
        ("grep y /data/a", "y\n", 0),
        ("cat /data/a | grep -v y", "x\n", 0),
        ("grep -q none /data/a", "", 1),
        ("grep ^x /data/a && grep Y /data/a || grep -i Y /data/a", "x\ny\n", 0),
        ("cat /data/a /data/a | sort -r -u", "y\nx\n", 0),
        ("touch /tmp/new && ls /tmp", "new\n", 0),
        ("ps | grep -c root", "2\n", 0),
        ("unheard-of", "", 127),
        ("echo 'open", "", 2),
    ],
)
def test_scripts(script, out, code):
    ran = shell(a="x\ny\n", b="").run(["sh", "-c", script])
    assert (ran.out.decode(), ran.code) == (out, code)


def test_what_is_packed_is_unpacked_again_in_another_container():
    packed = shell(a="x", b="y").run(["tar", "cf", "-", "/data"])
    with tarfile.open(fileobj=io.BytesIO(packed.out)) as archive:
        assert archive.getnames() == ["data/a", "data/b"]
    other = shell()
    assert other.run(["tar", "-xmf", "-", "-C", "/tmp"], packed.out).code == 0
    assert other.run(["cat", "/tmp/data/b"]).out == b"y"
    assert other.run(["tar", "xf", "-"], b"no archive").code == 1


def status_of(message):
    assert message[0] == 3
    return json.loads(message[1:])


def test_a_command_without_input_runs_at_once():
    session = Session(shell(), ["sh", "-c", "echo out; nope; exit 3"], V5)
    first, out, err, end = session.begin()
    assert (first, out) == (b"\x01", b"\x01out\n")
    assert err == b"\x02sh: nope: not found\n"
    assert status_of(end)["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    assert session.done


def test_input_is_read_to_its_end():
    session = Session(shell(), ["cat"], V5, stdin=True)
    assert session.begin() == [b"\x01"]
    assert session.receive(b"\x00one ") == []
    assert session.receive(b"\x04{}") == []
    assert session.receive(b"\x00two") == []
    out, end = session.receive(b"\xff\x00")
    assert out == b"\x01one two"
    assert status_of(end)["status"] == "Success"


def test_older_clients_send_lines_and_cannot_tell_the_end():
    session = Session(shell(), ["sh"], V4, stdin=True)
    session.begin()
    assert session.receive(b"\x00echo a\necho b\n") == [b"\x01a\n", b"\x01b\n"]
    (end,) = session.receive(b"\x00exit 2\n")
    assert status_of(end)["reason"] == "NonZeroExitCode"


def test_a_terminal_echoes_and_edits():
    session = Session(shell(), ["sh"], V5, stdin=True, tty=True)
    shown = b"".join(each[1:] for each in session.begin())
    shown += b"".join(each[1:] for each in session.receive(b"\x00echo x\x7fy\r"))
    assert shown == b"/ # echo x\b \by\r\ny\r\n/ # "
    assert status_of(session.receive(b"\x00\x04")[-1])["status"] == "Success"


def test_a_program_that_is_not_there_is_no_exit_code():
    (_, end) = Session(shell(), ["nope"], V5).begin()
    assert status_of(end)["reason"] == "InternalError"


def test_protocols():
    assert chosen_protocol("other, v4.channel.k8s.io") == V4
    assert chosen_protocol("SPDY/3.1+portforward.k8s.io") == ""
    session = Session(shell(), ["echo", "a"], "base64.channel.k8s.io")
    assert session.begin()[1] == b"1YQo="


def test_the_inside_of_a_container_is_what_its_pod_and_the_objects_it_names_say():
    pod = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"app": "x"}},
        "spec": {
            "nodeName": "n",
            "containers": [
                {
                    "name": "c",
                    "envFrom": [{"prefix": "P_", "configMapRef": {"name": "m"}}],
                    "env": [
                        {
                            "name": "LABEL",
                            "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}},
                        },
                        {"name": "BOTH", "value": "$(LABEL)-$(P_k)"},
                        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                    ],
                    "volumeMounts": [
                        {"name": "m", "mountPath": "/m"},
                        {"name": "one", "mountPath": "/one/file", "subPath": "to"},
                        {"name": "d", "mountPath": "/d/"},
                    ],
                }
            ],
            "volumes": [
                {"name": "m", "configMap": {"name": "m"}},
                {
                    "name": "one",
                    "secret": {"secretName": "s", "items": [{"key": "k", "path": "to"}]},
                },
                {
                    "name": "d",
                    "projected": {
                        "sources": [
                            {
                                "downwardAPI": {
                                    "items": [
                                        {
                                            "path": "labels",
                                            "fieldRef": {"fieldPath": "metadata.labels"},
                                        }
                                    ]
                                }
                            }
                        ]
                    },
                },
            ],
        },
    }
    objects = {
        ("configmaps", "ns", "m"): {"kind": "ConfigMap", "data": {"k": "v"}},
        ("secrets", "ns", "s"): {"kind": "Secret", "data": {"k": "aGk="}},
    }
    found = inside_of(pod, "c", lambda *key: objects.get(key))
    assert (found.env["BOTH"], found.env["S"], found.hostname) == ("x-v", "hi", "p")
    assert found.files["/m/k"] == b"v"
    assert found.files["/one/file"] == b"hi"
    assert found.files["/d/labels"] == b'app="x"'


def test_a_home_that_is_not_there_is_an_error_of_cd():
    inside = shell()
    inside.env["HOME"] = "/nowhere"
    assert inside.line("cd").err == b"sh: cd: /nowhere: No such file or directory\n"


def test_what_is_no_base64_is_no_message():
    session = Session(shell(), ["cat"], "base64.channel.k8s.io", stdin=True)
    assert session.receive(b"0=") == []
    assert not session.done


def test_what_a_program_is_given_is_bounded():
    session = Session(shell(), ["cat"], V5, stdin=True)
    session.begin()
    piece = b"\0" + bytes(1 << 20)
    for _ in range(32):
        assert session.receive(piece) == []
    (refused,) = session.receive(piece)
    assert session.done
    assert json.loads(refused[1:])["message"].endswith(f"more than {32 << 20} bytes of input")
    assert not session._given
    typed = Session(shell(), ["sh"], V5, stdin=True, tty=True)
    typed.begin()
    typed.receive(b"\0" + b"x" * 10_000)
    assert len(typed._typed) == 4095


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("a=xxxxxxxx\n" + "a=$a$a$a$a\n" * 20, b"sh: Argument list too long\n"),
        ('a=\'sh -c "$a"\'\nexport b=$a\nsh -c "$a"', b""),
        (
            "echo x > /f\n"
            + "cat /f /f /f /f /f /f /f /f > /g; cat /g /g /g /g /g /g /g /g > /f\n" * 6,
            b"steps of work",
        ),
        ("true\n" * 20_000, b"steps of work"),
        ("echo x\n" * 100_000, b"sh: a script of more than 262144 bytes\n"),
        ("echo" + " x" * 5000, b"sh: Argument list too long\n"),
    ],
)
def test_no_script_takes_more_than_there_is(script, error):
    ran = shell().run(["sh", "-c", script])
    assert error in ran.err
    assert len(ran.out) <= 64 << 20


PIECE = "x" * 200
FULL = "echo " + PIECE + " > /f; cat" + " /f" * 4000 + " > /g\n"


@pytest.mark.parametrize(
    "script",
    [
        FULL + "cat" + " /g" * 4000,
        FULL + "cat /g" + " | cat" * 2000,
        FULL + "cat /g >> /h\n" * 2000,
        "cat" + " /none" * 4000 + "\n" + ("cat" + " /none" * 4000 + "\n") * 8,
        ("ls" + " /tmp" * 4000 + "\n") * 12,
        ("rm" + " /tmp" * 4000 + "\n") * 12,
        ("tar cf -" + " /tmp" * 4000 + "\n") * 12,
        "A=" + PIECE + "\n" + "A=$A$A\n" * 9 + ("echo" + " $A" * 4000 + "\n") * 2,
        "true;" * 50_000,
        "sh -c 'sh -c \"sh -c " + "true; " * 40_000 + "\"'\n",
    ],
)
def test_the_work_of_a_script_is_bounded(script):
    inside = shell(**{f"f{number}": "" for number in range(2000)})
    ran = inside.run(["sh", "-c", script])
    assert ran.code != 0
    assert b"more than" in ran.err
    assert len(ran.err) < 1 << 20


def test_the_next_message_of_a_client_has_its_own_work():
    session = Session(shell(), ["sh"], V5, stdin=True, tty=True)
    session.begin()
    for _ in range(20):
        session.receive(b"\0" + b"echo " + b"x" * 4000 + b" > /f; cat" + b" /f" * 20 + b"\n")
    assert not session.done


@pytest.mark.slow
def test_a_script_that_works_too_much_ends_a_session_without_a_terminal():
    session = Session(shell(), ["sh"], V4, stdin=True)
    session.begin()
    found = session.receive(b"\0" + (b"ls" + b" /tmp" * 4000 + b"\n") * 20)
    assert session.done
    assert json.loads(found[-1][1:])["details"]["causes"][0]["message"] == "1"
    assert sum(b"steps of work" in each for each in found) == 1


def test_a_long_extended_header_of_an_archive_is_not_read():
    about = tarfile.TarInfo("x")
    about.type, about.size = tarfile.XHDTYPE, 1 << 20
    raw = about.tobuf() + b"1" * about.size + tarfile.TarInfo("f").tobuf() + bytes(1024)
    ran = shell().run(["tar", "xmf", "-"], raw)
    assert (ran.code, ran.err.count(b"steps of work")) == (1, 1)


def test_variables_have_bounded_room():
    lines = "".join(f"V{number}=$A\n" for number in range(100))
    ran = shell().run(["sh", "-c", "A=" + "x" * 100_000 + "\n" + lines])
    assert (ran.code, b"Argument list too long" in ran.err) == (1, True)


def test_no_output_is_longer_than_its_limit():
    inside = shell()
    inside.keep("/f", bytes(30 << 20))
    ran = inside.run(["cat", "/f", "/f", "/f"])
    assert (ran.code, b"bytes of output" in ran.err) == (1, True)


def test_files_of_a_container_have_bounded_room():
    inside = shell()
    inside.keep("/a", bytes(60 << 20))
    assert inside.run(["sh", "-c", "cat /a > /b"]).err == b"sh: /b: No space left on device\n"
    assert inside.run(["sh", "-c", "rm /a; echo x > /b"]).code == 0
    for number in range(4095):
        inside.keep(f"/f{number}", b"")
    assert b"No space left" in inside.run(["sh", "-c", "echo x > /more"]).err


def test_an_archive_of_holes_or_a_packed_one_is_not_blown_up():
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        about = tarfile.TarInfo("hole")
        archive.addfile(about)
    raw = bytearray(made.getvalue())
    raw[124:136] = b"77777777777\0"
    raw[148:156] = b" " * 8
    raw[148:156] = b"%06o\0 " % sum(raw[:512])
    assert shell().run(["tar", "xmf", "-"], bytes(raw)).code == 1
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        about = tarfile.TarInfo("big")
        about.size = 1 << 20
        archive.addfile(about, io.BytesIO(bytes(1 << 20)))
    inside = shell()
    assert inside.run(["tar", "xmf", "-"], packed.getvalue()).code == 1
    assert inside.files.all() == {}


def test_mounted_volumes_can_be_listed_where_they_have_no_files():
    pod = {
        "metadata": {"name": "p", "namespace": "n", "uid": "u"},
        "spec": {
            "volumes": [{"name": "data", "emptyDir": {}}],
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "volumeMounts": [{"name": "data", "mountPath": "/srv/data/"}],
                }
            ],
        },
    }
    inside = inside_of(pod, "c", lambda *_: None)
    found = shell_of(inside)
    assert (
        found.script("ls /srv && ls /srv/data && cd /srv/data && pwd").out == b"data\n/srv/data\n"
    )
    assert found.script("ls /srv/other").code == 1


def test_the_first_protocols_tell_failures_as_text_and_no_success():
    done = Session(shell(), ["echo", "a"], "channel.k8s.io")
    assert [each for each in done.begin() if each[0] == 3] == []
    failed = Session(shell(), ["false"], "channel.k8s.io")
    assert failed.begin()[-1] == b"\3command terminated with non-zero exit code: exit status 1"
    assert (done.done, failed.done) == (True, True)
