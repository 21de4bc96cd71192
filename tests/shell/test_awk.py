"""awk in the emulated shell: the language of POSIX, and the limits of what a program may do.

The expected outputs are those of mawk 1.3.4, but for characters that are no bytes, and where it is not as POSIX.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.container_inside import Inside
from controlplane.api.times import SECOND
from controlplane.shell.awk import values
from controlplane.shell.awk.records import pieces
from controlplane.shell.awk.syntax import SyntaxFailure, parsed
from controlplane.shell.files import Files
from controlplane.shell.programs import shell_of

FILES = {
    "/people": b"ann 31 oslo\nbob 27 bergen\ncid 45 oslo\n",
    "/csv": b"a:1:x\nb:2:y\n",
    "/paragraphs": b"one\ntwo\n\n\nthree four\n",
}


def inside():
    return Inside("u/c", "p", {"X": "7"}, dict(FILES), layer="l", now=1000 * SECOND)


def awk(*words, given=""):
    own = inside()
    return shell_of(own, Files(own)).run(["awk", *words], given.encode())


def sh(script):
    own = inside()
    return shell_of(own, Files(own)).run(["sh", "-c", script])


@pytest.mark.parametrize(
    ("program", "out"),
    [
        ("{print $1}", "ann\nbob\ncid\n"),
        ("{print $NF, NF, NR}", "oslo 3 1\nbergen 3 2\noslo 3 3\n"),
        ("/oslo/", "ann 31 oslo\ncid 45 oslo\n"),
        ("$2 > 30 {print $1}", "ann\ncid\n"),
        ('$3 == "oslo" && $2 < 40 {print $1}', "ann\n"),
        ("!/oslo/ {print $1}", "bob\n"),
        ("NR==1, NR==2 {print $1}", "ann\nbob\n"),
        ("/bob/, /never/ {print $1}", "bob\ncid\n"),
        ('BEGIN {print "begin"} END {print NR, $0}', "begin\n3 cid 45 oslo\n"),
        ("{sum += $2} END {print sum, sum / NR}", "103 34.3333\n"),
        ('{n[$3]++} END {print n["oslo"], n["bergen"], ("rome" in n)}', "2 1 0\n"),
        ('{$2 = "x"; print}', "ann x oslo\nbob x bergen\ncid x oslo\n"),
        ('BEGIN {OFS="-"} {$1 = $1; print}', "ann-31-oslo\nbob-27-bergen\ncid-45-oslo\n"),
        ("{NF = 2; print}", "ann 31\nbob 27\ncid 45\n"),
        ('NR == 1 {$5 = "e"; print; print NF}', "ann 31 oslo  e\n5\n"),
        ("{print $(NF-1)}", "31\n27\n45\n"),
        ("NR == 2 {next} {print $1}", "ann\ncid\n"),
        ('NR == 2 {exit 3} {print $1} END {print "end"}', "ann\nend\n"),
        ('{print > "/dev/stderr"}', ""),
    ],
)
def test_rules_and_fields(program, out):
    assert awk(program, "/people").out.decode() == out


@pytest.mark.parametrize(
    ("program", "out"),
    [
        ("print 1 + 2 * 3 ^ 2, 7 % 3, -2 ^ 2, 2 ^ 3 ^ 2", "19 1 -4 512"),
        ("print 1e3, 0.1 + 0.2, 1 / 3, 1e20", "1000 0.3 0.333333 1e+20"),
        ("print 1 \" \" 2 3, 1 + 1 \"x\" -1", "1 23 2-1"),
        ("x = 5; print x++ + ++x, x--, x", "12 7 6"),
        ("x = y = 3; x += 2; x *= y; x -= 1; x /= 7; x ^= 3; x %= 5; print x, y", "3 3"),
        ("print 1 < 2, 2 < 10, \"2\" < \"10\", \"a\" < \"b\", 1 == 1.0", "1 1 0 1 1"),
        ("print 1 ? \"y\" : \"n\", \"\" ? \"y\" : \"n\", \"0\" ? \"y\" : \"n\", 0 ? 1 : 0 ? 2 : 3", "y n y 3"),
        ("print !1, !0, !\"\", !\"a\", 1 && 0, 1 || 0", "0 1 1 0 0 1"),
        ("print \"abc\" ~ /^a.c$/, \"abc\" ~ \"b\", \"abc\" !~ /z/", "1 1 1"),
        ("print length(\"héllo\"), length(), index(\"abc\", \"c\"), index(\"abc\", \"z\")", "5 0 3 0"),
        ("print substr(\"hello\", 2, 3), substr(\"hello\", 0, 2), substr(\"hello\", 4), substr(\"hello\", -1)",
         "ell h lo hello"),
        ("print toupper(\"aB\") tolower(\"Cd\")", "ABcd"),
        ("print int(3.9), int(-3.9), int(\"4x\"), sqrt(16), exp(0), log(1), sin(0), cos(0), atan2(0, -1)",
         "3 -3 4 4 1 0 0 1 3.14159"),
        ("n = split(\"a b  c\", p); print n, p[1] p[3]; n = split(\"a:b\", p, \":\"); print n, p[2], length(p)",
         "3 ac\n2 b 2"),
        ("print split(\"\", p), split(\"abc\", p, \"\"), p[2], split(\"a1b22c\", p, /[0-9]+/), p[3]", "0 3 b 3 c"),
        ("print match(\"foobar\", /o+/), RSTART, RLENGTH; print match(\"x\", /y/), RSTART, RLENGTH", "2 2 2\n0 0 -1"),
        ("s = \"aaa\"; print sub(/a/, \"b\", s), s, gsub(/a/, \"[&]\", s), s, gsub(/\\[/, \"\\\\&\", s), s",
         "1 baa 2 b[a][a] 2 b&a]&a]"),
        ("s = \"abc\"; gsub(/x*/, \"-\", s); print s; s = \"axc\"; gsub(/x*/, \"-\", s); print s", "-a-b-c-\n-a-c-"),
        ("s = \"aaa\"; gsub(/^a/, \"b\", s); print s", "baa"),
        ("$0 = \"a b c\"; print $2, NF; $2 = \"\"; print; print NF", "b 3\na  c\n3"),
        ("printf \"%d|%5d|%-5s|%05.1f|%x|%c|%c|%s%%\\n\", 42.9, 7, \"ab\", 3.14159, 255, 65, \"hello\", \"e\"",
         "42|    7|ab   |003.1|ff|A|h|e%"),
        ("printf \"%*d|%.2s|%s|\\n\", 5, 3, \"abc\"", "    3|ab||"),
        ("print sprintf(\"%03d\", 7), sprintf(\"%5.2f\", 2.345), sprintf(\"%e\", 12345)", "007  2.35 1.234500e+04"),
        ("a[1, 2] = 3; for (k in a) {split(k, p, SUBSEP); print p[1], p[2], a[k], ((1, 2) in a)}", "1 2 3 1"),
        ("a[7] = 1; delete a[7]; print (7 in a), length(a); a[1]; print length(a); delete a; print length(a)",
         "0 0\n1\n0"),
        ("for (i = 0; i < 5; i++) {if (i == 1) continue; if (i == 4) break; printf \"%d \", i}; print \"\"", "0 2 3 "),
        ("while (i < 3) i++; do {i--} while (i > 1); print i", "1"),
        ("if (0) print 1; else if (1) print 2; else print 3", "2"),
        ("CONVFMT = \"%.2g\"; x = 3.14159 \"\"; OFMT = \"%.3g\"; print x, 3.14159", "3.1 3.14"),
        ("print length(x), x + 0, x \"\" == \"\", x == 0", "0 0 1 1"),
        ("print \"a\\tb\\\\n\\\"q\\\"\\/ \\101\"", "a\tb\\n\"q\"/ A"),
        ("print 1,\n 2; x = 1 \\\n + 1; print x # and a comment", "1 2\n2"),
        ("print (1)(2), (1, 2) in a", "12 0"),
        ("print 1 > 2 ? \"a\" : \"b\"", None),
        ("print (1 > 2) ? \"a\" : \"b\"", "b"),
        ("\"echo hi; echo ho\" | getline x; print x; \"echo hi; echo ho\" | getline; print $0, NR", "hi\nho 2"),
        ("while ((getline l < \"/csv\") > 0) n++; print n, l; close(\"/csv\"); getline l < \"/csv\"; print l",
         "2 b:2:y\na:1:x"),
        ("print (getline x < \"/none\")", "-1"),
        ("print \"b\\na\" | \"sort\"; close(\"sort\"); print system(\"exit 3\")", "a\nb\n3"),
        ("print ENVIRON[\"X\"] + 1, ARGC, ARGV[0]", "8 1 awk"),
        ("$3 = \"z\"; print NF, $0; $0 = \"q\"; print NF", "3   z\n1"),
        ("print substr(\"hello\", 1.5, 2), index(12345, 34)", "el 3"),
        ("print -\"3x\", +\"\", 1 - -1, 2 - 1", "-3 0 2 1"),
        ("x[\"a\"]; if (\"a\" in x) print \"yes\"; if (!(\"b\" in x)) print \"no\"", "yes\nno"),
        ("print 10 % 3.5, 2 ** 3, 1 == 1, \"a\" \"b\" == \"ab\"", "3 8 1 1"),
        ("print \"x\" > \"/f\"; print \"y\" >> \"/f\"; close(\"/f\"); while ((getline l < \"/f\") > 0) print l",
         "x\ny"),
        ("srand(1); a = rand(); srand(1); print a == rand(), a < 1, srand()", "1 1 1"),
    ],
)  # fmt: skip
def test_expressions_and_statements(program, out):
    ran = awk(f"BEGIN {{{program}\n}}")
    if out is None:  # the comparison is a file's name
        assert ran.out == b""
        return
    assert ran.err == b""
    assert ran.out.decode() == f"{out}\n"


@pytest.mark.parametrize(
    ("words", "given", "out"),
    [
        (("-F:", "{print $2}", "/csv"), "", "1\n2\n"),
        (("-F", ":", "-v", "n=2", "{print $n}", "/csv"), "", "1\n2\n"),
        (("-F", "[0-9]+", "{print $1 $2}"), "a12b\n", "ab\n"),
        (("-F", "|", "{print $2}"), "a|b|c\n", "b\n"),
        (("-F", r"\t", "{print $2}"), "a b\tc d\n", "c d\n"),
        (("-v", r"s=a\tb", "BEGIN {print s}"), "", "a\tb\n"),
        (("{print v, $1}", "v=1", "/csv", "v=2", "/csv"), "", "1 a:1:x\n1 b:2:y\n2 a:1:x\n2 b:2:y\n"),
        (("{print FILENAME, FNR, NR}", "/csv", "-"), "z\n", "/csv 1 1\n/csv 2 2\n 1 3\n"),
        (("--", "{print}"), "last without newline", "last without newline\n"),
        (("BEGIN {RS = \"\"} {print NR \": \" $1 \"-\" $NF}", "/paragraphs"), "", "1: one-two\n2: three-four\n"),
        (("BEGIN {RS = \"\"; FS = \":\"} {print $2}"), "a:b\nc:d\n", "b\n"),
        (("BEGIN {RS = \";\"} {print NR, $0}",), "a;b;c", "1 a\n2 b\n3 c\n"),
        (("BEGIN {while (getline > 0) n++; print n}",), "a\nb\n", "2\n"),
        (("NR == 1 {getline; print} NR == 2 {getline x; print x, NR}",), "a\nb\nc\n", "b\nc 3\n"),
        (("{print ($1 == 10), ($1 < 9)}",), "10.0\n", "1 0\n"),
        (("{print ($1 == \"10\")}",), "10.0\n", "0\n"),
        (("$1",), "0\n1\n\nx\n", "1\nx\n"),
    ],
)  # fmt: skip
def test_options_operands_and_records(words, given, out):
    words = (words,) if isinstance(words, str) else words
    ran = awk(*words, given=given)
    assert (ran.out.decode(), ran.err) == (out, b"")


FUNCTIONS = """
function fact(n) { return n <= 1 ? 1 : n * fact(n - 1) }
function fill(a, n,   i) { for (i = 1; i <= n; i++) a[i] = i * i }
function outer(b) { fill(b, 3) }
function none() { return }
function change(s) { s = "changed" }
BEGIN {
    print fact(10)
    outer(squares); print squares[3], length(squares)
    x = "kept"; change(x); print x, i "", none() ""
}
"""


def test_functions_have_their_own_variables_and_change_arrays():
    assert awk(FUNCTIONS).out.decode() == "3628800\n9 3\nkept  \n"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("{print $1", "cmd. line:1: Unexpected end of program"),
        ("BEGIN {\n x = = 1 }", "cmd. line:2: Unexpected token"),
        ('BEGIN {print "abc}', "cmd. line:1: Unterminated string"),
        ("BEGIN {print 1 / 0}", "Division by zero"),
        ("BEGIN {print 1 % 0}", "Division by zero"),
        ("BEGIN {a[1] = 1; print a}", "array a used as a scalar"),
        ("BEGIN {a = 1; a[1] = 2}", "scalar a used as an array"),
        ("BEGIN {f(1)}", "call of undefined function f"),
        ('BEGIN {print substr("a")}', "wrong number of arguments for substr"),
        ("BEGIN {$-1 = 2}", "Access to field -1, of at most 32767"),
        ("BEGIN {$99999 = 2}", "Access to field 99999, of at most 32767"),
        ('BEGIN {print "a" ~ "("}', "bad regex '('"),
        ("function f() {f()} BEGIN {f()}", "function f nested too deeply"),
        ("BEGIN " + "{" * 100 + "}" * 100, "cmd. line:1: nested too deeply"),
        ("BEGIN {break}", "'break' outside of a rule, loop or function"),
        ("BEGIN {x = (1, 2)}", "a list of values in parentheses has no value"),
    ],
)
def test_an_error_ends_the_program_and_is_told(program, said):
    ran = awk(program)
    assert ran.code == 1
    assert ran.err.decode().startswith(f"awk: {said}")


def test_a_missing_file_and_wrong_options_are_told():
    assert awk("{print}", "/none").err == b"awk: /none: No such file or directory\n"
    assert awk("-z", "{print}").err == b"awk: invalid option -- 'z'\n"
    assert awk().code == 1


@pytest.mark.parametrize(
    "program",
    [
        "BEGIN {while (1) x++}",
        "BEGIN {for (;;) print \"x\"}",
        "BEGIN {s = \"xxxxxxxx\"; while (1) s = s s}",
        "BEGIN {for (i = 0; ; i++) a[i] = i}",
        "BEGIN {s = sprintf(\"%999s\", \"\"); while (1) gsub(/ /, \"  \", s)}",
        "BEGIN {while (1) \"echo x\" | getline}",
    ],
)  # fmt: skip
def test_the_work_of_a_program_is_bounded(program):
    ran = awk(program)
    assert ran.code == 1
    assert b"more than" in ran.err or b"too long" in ran.err


def test_a_script_uses_awk_in_pipes_and_substitutions():
    script = """
f=/count
count=$(echo 'hello' >> $f ; wc -l $f | awk {'print $1'})
echo $count
seq 3 | awk '{s += $1} END {exit s}'; echo $?
awk -f /prog < /people
"""
    ran = sh("echo '{ print length($0) }' > /prog\n" + script)
    assert ran.out.decode() == "1\n6\n11\n13\n11\n"


# ---------------------------------------------------------------------- parts


@given(st.lists(st.text("ab1", min_size=1, max_size=3), min_size=1, max_size=6))
def test_fields_that_are_joined_are_split_again(fields):
    assert pieces(",".join(fields), ",", lambda *_: None) == fields
    assert pieces(" " + "  ".join(fields) + "\t", " ", lambda *_: None) == fields


@given(st.floats(-1e9, 1e9, allow_nan=False))
def test_numbers_are_read_as_they_are_written(value):
    assert values.number(values.text(value, "%.17g")) == value


def test_what_looks_like_a_number_is_compared_as_one():
    ten, other = values.given(" 10 "), values.given("1e1")
    assert values.compared(ten, other, "%.6g") == 0
    assert values.compared(ten, "9", "%.6g") == -1
    assert values.compared(values.given("10x"), 9.0, "%.6g") == -1


def test_a_program_is_parsed_once_as_a_whole():
    with pytest.raises(SyntaxFailure):
        parsed("BEGIN {print 1}}")
    assert [each.kind for each in parsed("BEGIN {x}\n/a/\nEND {y}\n").rules] == ["BEGIN", "", "END"]
