"""The shell language: compound commands, expansion, redirections, and the bounds of its work."""

import random

import pytest

from controlplane.api.container_inside import Inside, Mount
from controlplane.shell.files import Disks, Files
from controlplane.shell.programs import shell_of

NOW = 1_767_225_600 * 1_000_000_000


def shell(**env):
    files = {"/etc/hosts": b"127.0.0.1\tlocalhost\n", "/data/a.txt": b"x\n", "/data/b.txt": b"y\n"}
    return shell_of(
        Inside("uid/c", "web-0", {"HOME": "/root", **env}, files, layer="layer/1", now=NOW)
    )


@pytest.mark.parametrize(
    ("script", "out", "code"),
    [
        (
            "if [ $I -ge 2 ]; then exit 1; elif [ $I = 1 ]; then echo one; else echo less; fi",
            "one\n",
            0,
        ),
        ("if false\nthen echo a\nelse\necho b\nfi", "b\n", 0),
        ("for i in 1 2 3; do [ $i -eq 2 ] && continue; echo $i; done", "1\n3\n", 0),
        ("n=0; while true; do n=$((n + 1)); [ $n -ge 3 ] && break; done; echo $n", "3\n", 0),
        ("n=3; until [ $n -le 0 ]; do n=$((n-1)); done; echo $n", "0\n", 0),
        ("for a in 1 2; do for b in 1 2; do break 2; done; done; echo $a$b", "11\n", 0),
        ("case $I in 0|2) echo even;; [13]) echo odd;; *) echo other;; esac", "odd\n", 0),
        ("f() { echo $1 $#; return 4; }; f a b; echo $?", "a 2\n4\n", 0),
        ("(cd /data; X=5; exit 3); echo $? $PWD ${X:-none}", "3 / none\n", 0),
        ("{ echo a; echo b; } | wc -l", "2\n", 0),
        ("! true; echo $?; ! false && echo yes", "1\nyes\n", 0),
        (
            "echo $(( 7 / 2 )) $((-7 % 3)) $((1<<4)) $((I == 1 ? 10 : 20)) $((2**10))",
            "3 -1 16 10 1024\n",
            0,
        ),
        ("echo $((x = 5, x += 2)) $x $((x++)) $x", "7 7 7 8\n", 0),
        ("exit $(( $I % 2 ))", "", 1),
        ("echo $((1/0)); echo never", "", 2),
        ("echo ${A:-d} ${A-d} ${B:=set} $B ${I:+there} ${#HOME}", "d d set set there 5\n", 0),
        ("P=/a/b.tar.gz; echo ${P##*/} ${P%.*} ${P%%.*}", "b.tar.gz /a/b.tar /a/b\n", 0),
        ("P=/a/b.tar.gz; echo ${P#/a/} ${P/b/c} ${P:1:3}", "b.tar.gz /a/c.tar.gz a/b\n", 0),
        ("echo ${NONE:?missing}; echo never", "", 2),
        ("x=$(echo a; false); echo $? $x", "1 a\n", 0),
        (
            "echo `echo one` \"$(echo 'two  words')\" $(echo 'three  words')",
            "one two  words three words\n",
            0,
        ),
        (
            'set -- a \'b c\'; for each; do echo "<$each>"; done; shift; echo "$@" $#',
            "<a>\n<b c>\nb c 1\n",
            0,
        ),
        ("sh -c 'echo $0 $1' name arg", "name arg\n", 0),
        ("set -e; false || true; if false; then :; fi; false; echo never", "", 1),
        ("sh -ec 'false; echo never'; echo $?", "1\n", 0),
        (
            "cat <<EOF\nhome $HOME $((1+1))\nEOF\ncat <<'EOF'\n$HOME\nEOF",
            "home /root 2\n$HOME\n",
            0,
        ),
        ("echo out; echo err >&2; echo both > /tmp/f 2>&1; cat < /tmp/f", "out\nboth\n", 0),
        ("ls /none 2>/dev/null || echo missing", "missing\n", 0),
        ("ls /none > /tmp/f 2>&1; wc -l < /tmp/f", "1\n", 0),
        ("cd /data; echo *.txt '*.txt' n*", "a.txt b.txt *.txt n*\n", 0),
        ("printf '%s=%03d\\n' a 5 b 6; echo -e 'x\\ty'", "a=005\nb=006\nx\ty\n", 0),
        ("echo 'a b' | while read x y; do echo $y $x; done", "b a\n", 0),
        (
            "[[ -r /data/a.txt && $I == 1* ]] && echo both; [ ! -e /none -a 2 -gt 1 ] && echo too",
            "both\ntoo\n",
            0,
        ),
        ("[ a -eq 1 ]; echo $?", "2\n", 0),
        ("mkdir -p /data/new/deep; [ -d /data/new/deep ] && ls /data", "a.txt\nb.txt\nnew\n", 0),
        ("mkdir /tmp/new; cp /data/a.txt /tmp/new; ls /tmp/new", "a.txt\n", 0),
        (
            "seq 3 | tr '\\n' , ; expr 3 + 4; echo a:b | cut -d: -f2; echo abc | sed s/b/x/",
            "1,2,3,7\nb\naxc\n",
            0,
        ),
        ("date +%Y-%m-%dT%H:%M:%S; date +%s", "2026-01-01T00:00:00\n1767225600\n", 0),
        (
            "eval 'echo $I'; command -v cat; X=1 env | grep ^X=; echo ${X:-gone}",
            "1\ncat\nX=1\ngone\n",
            0,
        ),
        ("timeout 5 sleep 10; echo $?; timeout 5 true; echo $?", "124\n0\n", 0),
        ("echo start\nif", "start\n", 2),
        ("echo a # a comment\n# another\necho b", "a\nb\n", 0),
        ("echo one \\\n two", "one two\n", 0),
    ],
)
def test_scripts(script, out, code):
    ran = shell(I="1").run(["sh", "-c", script])
    assert (ran.out.decode(), ran.code) == (out, code), ran.err


def test_a_command_over_several_lines_is_typed_line_by_line():
    inside = shell()
    assert inside.line("for i in a b").out == b""
    assert inside.continues
    inside.line("do echo $i")
    assert inside.line("done").out == b"a\nb\n"
    assert not inside.continues


def test_processes_are_those_of_the_container_and_of_the_session():
    inside = shell()
    inside.processes.append("nginx -g daemon off;")
    lines = inside.run(["sh", "-c", "ps"]).out.decode().splitlines()
    assert [line.split(None, 3)[::3] for line in lines[1:]] == [
        ["1", "nginx -g daemon off;"],
        ["2", "sh -c ps"],
        ["3", "ps"],
    ]


def test_volumes_hold_what_is_written_and_others_see_it():
    disks = Disks()

    def container(name, **options):
        mounts = (Mount("/data", "pod/u/data", **options), Mount("/conf", "", read_only=True))
        inside = Inside(
            f"u/{name}", "h", {}, {"/conf/k": b"v"}, mounts=mounts, layer=f"layer/{name}"
        )
        return shell_of(inside, Files(inside, disks))

    first, second = container("a"), container("b", sub_path="sub")
    assert (
        first.run(["sh", "-c", "mkdir /data/sub; echo hi > /data/sub/f; echo own > /tmp/f"]).code
        == 0
    )
    assert second.run(["sh", "-c", "cat /data/f; ls /data /conf; cat /tmp/f"]).out == b"hi\nf\nk\n"
    refused = second.run(["sh", "-c", "echo x > /conf/k"])
    assert (refused.code, refused.err) == (1, b"sh: can't create /conf/k: Read-only file system\n")
    assert second.run(["rm", "-r", "/data/f"]).code == 0
    assert first.run(["cat", "/data/sub/f"]).code == 1


@pytest.mark.parametrize(
    "script",
    [
        "while true; do :; done",
        "f() { f; }; f",
        "f() { f | f; }; f",
        "x=a; while true; do x=$x$x; done",
        "seq 1000000 | sort | sort | sort | sort",
        "x=$(seq 40000); echo ${x%%*9*1*}",
        "echo $((" + "(" * 500 + "1" + ")" * 500 + "))",
        "(" * 300 + "true" + ")" * 300,
        "eval " * 200 + "true",
    ],
)
def test_no_script_goes_on_for_long(script):
    ran = shell().run(["sh", "-c", script])
    assert ran.code
    assert len(ran.err) < 1 << 20


PIECES = [
    "\n",
    *r"""
if then fi do done for while case esac in ;; $( ) ( { } ` " ' $(( )) ${ %% <<E ;
&& || | & > 2>&1 < echo a [ ] [[ ]] 1 + x= $x * \ exit break read # ! f()
""".split(),
]


def test_no_text_is_a_defect():
    dice = random.Random(5)
    for _ in range(1500):
        text = " ".join(dice.choices(PIECES, k=dice.randrange(1, 14)))
        ran = shell().run(["sh", "-c", text])
        assert 0 <= ran.code < 256, text
