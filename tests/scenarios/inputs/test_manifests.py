from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from controlplane.errors import UsageError
from controlplane.scenarios.engine.plan import digest
from controlplane.scenarios.inputs.manifests import (
    ManifestError,
    load,
    load_text,
    plain_scalar,
    values,
)

EXAMPLES = Path(__file__).parents[3] / "examples"
POD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("Y", True),
        ("on", True),
        ("True", True),
        ("tRUE", "tRUE"),
        ("no", False),
        ("n", False),
        ("OFF", False),
        ("FALSE", False),
        ("", None),
        ("~", None),
        ("Null", None),
        ("nULL", "nULL"),
        ("12", 12),
        ("-3", -3),
        ("+5", 5),
        ("0x1F", 31),
        ("0777", 511),
        ("0o17", 15),
        ("0b101", 5),
        ("-0b1", -1),
        ("1_000", 1000),
        ("08", 8),
        ("1e3", 1000),
        ("1.5", 1.5),
        ("1.0", 1),
        (".5", 0.5),
        ("1e400x", "1e400x"),
        ("12:30:45", "12:30:45"),
        ("2026-01-01", "2026-01-01"),
        ("100m", "100m"),
        ("1Gi", "1Gi"),
        ("1.2.3", "1.2.3"),
        ("_1", "_1"),
        ("-", "-"),
        (".", "."),
        ("1e21", 1e21),
        ("123456789012345678901234", 123456789012345678901234),
    ],
)
def test_plain_scalars_mean_what_kubectl_takes_them_for(text, value):
    found = plain_scalar(text)
    assert found == value
    assert type(found) is type(value)


def test_quotes_and_tags_keep_text_text():
    found = values("a: 'yes'\nb: \"1\"\nc: !!str 1\nd: |\n  on\ne: !!float 1\n", "f")[0][0]
    assert found == {"a": "yes", "b": "1", "c": "1", "d": "on\n", "e": 1}


def test_keys_that_are_not_text_become_text():
    assert values("1: a\non: b\n", "f")[0][0] == {"1": "a", "true": "b"}


def test_merge_keys_and_aliases_are_resolved():
    text = "base: &b {x: 1, w: 2}\nuse: {<<: *b, w: 3}\nlist: {<<: [*b, {z: 4}]}\n"
    found = values(text, "f")[0][0]
    assert found["use"] == {"x": 1, "w": 3}
    assert found["list"] == {"x": 1, "w": 2, "z": 4}


def test_documents_and_lists_are_taken_apart_with_their_lines():
    text = f"# head\n---\n{POD}---\n---\nkind: List\napiVersion: v1\nitems:\n" + "".join(
        f"- apiVersion: v1\n  kind: Pod\n  metadata: {{name: {name}, namespace: ns}}\n"
        for name in ("b", "c")
    )
    found = load_text(text, "f.yaml")
    assert [(m.name, m.line) for m in found] == [("Pod a", 3), ("Pod ns/b", 12), ("Pod ns/c", 15)]
    assert found[1].line_of("metadata.name") == 14
    assert found[0].line_of("spec.containers[0]") == 3


def test_typed_lists_lend_their_items_kind_and_version():
    text = '{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"}}]}'
    (found,) = load_text(text, "f.json")
    assert (found.kind, found.tree["apiVersion"]) == ("Pod", "v1")


def test_json_may_hold_several_objects_and_any_escape():
    one = '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"e":"\\ud83d\\ude00"}}}'
    found = load_text(f"{one}\n{one}\n", "f.json")
    assert [m.line for m in found] == [1, 2]
    assert found[0].tree["metadata"]["labels"]["e"] == "\U0001f600"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1\nb: 2\n", "f.yaml:2: broken YAML: did not find expected ',' or ']'"),
        (f"{POD}spec: {{}}\nspec: {{}}\n", 'f.yaml:6: key "spec" given twice'),
        ("kind: Pod\nmetadata: {name: a}\n", "f.yaml:1: Pod a: apiVersion: required"),
        ("apiVersion: v1\nmetadata: {name: a}\n", "f.yaml:1: object a: kind: required"),
        ("apiVersion: v1\nkind: Pod\n", "f.yaml:1: Pod: metadata.name: required"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: 12\n",
            "f.yaml:4: Pod 12: metadata.name: expected text, found the number 12",
        ),
        ("- a\n- b\n", "f.yaml:1: expected an object, found a list"),
        ("just words\n", "f.yaml:1: expected an object, found text 'just words'"),
        ("# nothing\n", "f.yaml:1: no objects in this file"),
        (f"{POD}x: &a\n  y: *a\n", "f.yaml:5: an alias inside the node that it names"),
        (f"{POD}x: .inf\n", "f.yaml:5: .inf cannot be sent as JSON"),
        (f"{POD}x: !!int words\n", "f.yaml:5: cannot decode !!str `words` as a !!int"),
        (f"{POD}? [a]\n: b\n", "f.yaml:5: a key must be text"),
        ("[" * 20000 + "]" * 20000, "f.yaml:1: nested too deeply"),
    ],
)
def test_bad_input_is_one_line_that_names_the_place(text, message):
    with pytest.raises(ManifestError) as error:
        load_text(text, "f.yaml")
    assert str(error.value) == message
    assert isinstance(error.value, UsageError)


def test_broken_json_names_its_line():
    with pytest.raises(ManifestError, match=r"f\.json:2: broken JSON: expecting"):
        load_text('{"a": 1,\n "b" 2}', "f.json")
    with pytest.raises(ManifestError, match=r'f\.json:1: key "a" given twice'):
        load_text('{"a": 1, "a": 2}', "f.json")


def test_unreadable_files_and_empty_folders_are_named(tmp_path):
    with pytest.raises(ManifestError, match=r"gone\.yaml: no such file or directory"):
        load([tmp_path / "gone.yaml"])
    with pytest.raises(ManifestError, match="no manifests"):
        load([tmp_path])
    (tmp_path / "latin.yaml").write_bytes(b"a: \xff\n")
    with pytest.raises(ManifestError, match=r"latin\.yaml: not UTF-8 text"):
        load([tmp_path])


def put(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text('{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}')


def test_a_folder_is_read_with_all_below_it_by_name(tmp_path):
    put(tmp_path, "b.yaml", "a.yml", "d.json", "notes.txt", "c/z.yaml", "c/e/y.yaml", ".git/x.yaml")
    found = [Path(m.file).relative_to(tmp_path).as_posix() for m in load([tmp_path])]
    assert found == ["a.yml", "b.yaml", "c/e/y.yaml", "c/z.yaml", "d.json"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("kustomization.yaml", "a kustomization has to be built first: `kubectl kustomize "),
        ("Chart.yaml", "a Helm chart has to be built first: `helm template "),
    ],
)
def test_folders_that_have_to_be_built_say_so(tmp_path, name, told):
    put(tmp_path, "a.yaml", f"sub/{name}")
    with pytest.raises(ManifestError) as raised:
        load([tmp_path])
    assert str(raised.value).startswith(f"{tmp_path / 'sub'}: {told}{tmp_path / 'sub'}`")


def test_a_kustomization_given_as_a_file_says_so():
    text = "# ours\napiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
    with pytest.raises(ManifestError, match=r"^a/kustomization\.yaml:2: a kustomization has to"):
        load_text(text, "a/kustomization.yaml")


def test_standard_input_is_read_once_and_remembered(monkeypatch):
    for name in ("one", "two"):
        text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n"
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(text.encode())))
        for _ in range(2):
            (pod,) = load(["-"])
            assert (pod.file, pod.tree["metadata"]["name"]) == ("-", name)
        assert digest(["-"]) == digest(["-"])


def test_an_error_about_a_field_finds_its_line():
    (pod,) = load_text(f"{POD}spec:\n  containers:\n  - name: c\n    image: 7\n", "f.yaml")
    error = pod.error("spec.containers[0].image", "expected text")
    assert str(error) == "f.yaml:8: Pod a: spec.containers[0].image: expected text"


def test_the_example_shop_loads():
    found = load([EXAMPLES / "shop.yaml"])
    kinds = [m.kind for m in found]
    assert kinds.count("Deployment") == kinds.count("Service") == 11
