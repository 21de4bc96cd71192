"""Go templates with sprig's functions."""

from __future__ import annotations

import pytest

from controlplane.kwok.gotemplate import TemplateError, numbers, render

DATA = numbers({"name": "web-1", "n": 3, "zero": 0, "list": ["a", "b"], "map": {"b": 2, "a": 1}})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ .name }} {{ .missing.deep }}", "web-1 <no value>"),
        ("{{ range $i, $each := .list }}{{ $i }}{{ $each }} {{ else }}none{{ end }}", "0a 1b "),
        ("{{ range .missing }}x{{ else }}none{{ end }}", "none"),
        ("{{ range .list }}{{ if eq . \"b\" }}{{ break }}{{ end }}{{ . }}{{ end }}", "a"),
        ("{{ if .zero }}a number of the object is true{{ end }}", "a number of the object is true"),
        ("{{ if false }}1{{ else if eq .name \"web-1\" }}2{{ else }}3{{ end }}", "2"),
        ("{{ with .map }}{{ .a }}{{ end }}{{ .map }}", "1map[a:1 b:2]"),
        ("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ end }}{{ $x }}", "2"),
        ("a {{- /* gone */ -}} b", "ab"),
        ('{{ define "t" }}<{{ . }}>{{ end }}{{ template "t" .name }}', "<web-1>"),
        ("{{ .name | trunc 3 | upper | quote }}", '"WEB"'),
        ('{{ printf "%s/%05d/%.1f" .name 42 1.25 }}', "web-1/00042/1.2"),
        ("{{ add 1 .n | mul 2 }} {{ div 7 2 }} {{ mod 7 2 }}", "8 3 1"),
        ('{{ regexReplaceAll "([a-z]+)-" .name "${1}_" }}', "web_1"),
        ('{{ list 1 2 3 | join "-" }} {{ dict "a" 1 | toJson }}', '1-2-3 {"a":1}'),
        ('{{ default "d" .missing }} {{ or .missing "x" }} {{ and .name 0 }}', "d x 0"),
        ("{{ (index .list 1) }} {{ len .list }} {{ index .map \"b\" }}", "b 2 2"),
    ],
)  # fmt: skip
def test_a_template_renders_as_in_go(text, expected):
    assert render(text, DATA, {}) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("\n{{ nope }}", 'template: _:2: function "nope" not defined'),
        ("{{ if .a }}", "template: _:1: unexpected EOF"),
        ("{{ end }}", "template: _:1: unexpected {{end}}"),
        ("{{ $x }}", 'template: _:1: undefined variable "$x"'),
        ("{{ .name.deep }}", 'template: _:1: executing "_": can\'t evaluate field deep in type string'),
        ('{{ fail "no" }}', 'template: _:1: executing "_": error calling fail: no'),
        ("{{ eq 1 .n }}", 'template: _:1: executing "_": error calling eq: incompatible types for comparison'),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(text, told):
    with pytest.raises(TemplateError) as refused:
        render(text, DATA, {})
    assert str(refused.value) == told


@pytest.mark.parametrize(
    "text",
    [
        "{{ range until 100000 }}{{ range until 100000 }}x{{ end }}{{ end }}",
        '{{ define "t" }}{{ template "t" . }}{{ end }}{{ template "t" . }}',
        '{{ repeat 100000000 "x" }}',
        "{{ until 1000000000 }}",
    ],
)
def test_a_template_that_does_too_much_fails(text):
    with pytest.raises(TemplateError):
        render(text, DATA, {})
