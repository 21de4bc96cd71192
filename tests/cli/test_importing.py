"""`controlplane import`: a cluster's objects, or exported files, as a folder of manifests."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import yaml

from tests.cli.test_run import ROOT, SHOP, controlplane

FAKE = """#!{python}
import json, sys
words = sys.argv[1:]
assert words[:2] == ["--context", "prod"], words
if "api-resources" in words:
    print("nodes\\nnamespaces" if "--namespaced=false" in words else "secrets\\nevents\\nconfigmaps")
else:
    name = words[words.index("get") + 1]
    assert name != "events"
    objects = json.load(open({objects!r}))
    items = [each for each in objects if each["kind"].lower() + "s" == name]
    if "-n" in words:
        space = words[words.index("-n") + 1]
        items = [each for each in items if each["metadata"]["namespace"] == space]
    print(json.dumps({{"items": items}}))
"""


def made(kind, name, namespace="", **rest):
    metadata = {"name": name, "uid": f"{kind}-{name}", "resourceVersion": "1"}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **rest}


@pytest.fixture
def cluster(tmp_path):
    """A kubectl that reads a cluster of four objects; the environment in which it is found."""
    objects = tmp_path / "objects.json"
    objects.write_text(
        json.dumps(
            [
                made("Namespace", "shop"),
                made("Namespace", "other"),
                made("Secret", "key", "shop", type="Opaque", data={"a": "c2VjcmV0IHRleHQ="}),
                made("ConfigMap", "settings", "other", data={"a": "b"}),
            ]
        )
    )
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(FAKE.format(python=sys.executable, objects=str(objects)))
    program.chmod(0o755)
    return {**os.environ, "PATH": str(program.parent)}


def imported(environment, *arguments, cwd):
    program = "from controlplane.cli.main import main; main()"
    command = [sys.executable, "-c", program, "import", *map(str, arguments)]
    environment = {**environment, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=environment, check=False
    )


@pytest.mark.slow
def test_a_cluster_is_read_with_kubectl_and_its_secrets_are_redacted(cluster, tmp_path):
    done = imported(cluster, "--context", "prod", "--out", tmp_path / "got", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "4 objects in 3 files" in done.stdout
    secret = yaml.safe_load((tmp_path / "got" / "ns-shop" / "secret.yaml").read_text())
    assert secret["data"] == {"a": "REDACTED"}
    assert secret["metadata"] == {"name": "key", "namespace": "shop"}
    again = imported(cluster, "--context", "prod", "--out", tmp_path / "got", cwd=tmp_path)
    assert (again.returncode, again.stdout) == (2, "")
    assert "not empty" in again.stderr


def test_a_namespace_and_readable_secrets_are_a_choice(cluster, tmp_path):
    asked = ("--context", "prod", "-n", "shop", "--show-secrets", "--out", tmp_path / "got")
    done = imported(cluster, *asked, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    files = sorted(str(path.relative_to(tmp_path / "got")) for path in tmp_path.glob("got/*/*"))
    assert files == ["cluster/namespace.yaml", "ns-shop/secret.yaml"]
    assert "c2VjcmV0" in (tmp_path / "got" / "ns-shop" / "secret.yaml").read_text()
    assert "other" not in (tmp_path / "got" / "cluster" / "namespace.yaml").read_text()


@pytest.mark.slow
def test_what_a_run_left_becomes_manifests_that_run(tmp_path):
    left = controlplane("run", SHOP, "--nodes", 2, "--out", tmp_path / "out")
    assert left.returncode == 0, left.stderr
    done = controlplane("import", tmp_path / "out" / "objects.yaml", "--out", tmp_path / "got")
    assert done.returncode == 0, done.stderr
    texts = "".join(path.read_text() for path in tmp_path.glob("got/*/*"))
    assert "resourceVersion:" not in texts
    again = controlplane("run", tmp_path / "got", "--format", "json")
    assert again.returncode == 0, again.stderr
    told = json.loads(again.stdout)
    assert len(told["nodes"]) == 2
    assert all(line["ready"] == line["wanted"] for line in told["workloads"])


def test_a_missing_kubectl_is_one_line(tmp_path):
    done = imported({**os.environ, "PATH": str(tmp_path)}, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "controlplane: import: kubectl was not found, which reads the cluster\n"


LISTED = """#!{python}
import json, sys
words = sys.argv[1:]
assert words[:3] == ["--context", "prod", "get"], words
names = ["default"] if words[-1].startswith("/api/v1/namespaces") else []
items = [{{"metadata": {{"name": name}}}} for name in names]
print(json.dumps({{"metadata": {{"resourceVersion": "5"}}, "items": items}}))
"""


@pytest.mark.slow
def test_a_record_of_a_cluster_is_written(cluster, tmp_path):
    program = tmp_path / "bin" / "kubectl"
    program.write_text(LISTED.format(python=sys.executable))
    record = tmp_path / "day.jsonl"
    done = imported(cluster, "--context", "prod", "--record", record, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{record}: 1 added\n"), done.stderr
    (line,) = [json.loads(each) for each in record.read_text().splitlines()]
    assert (line["event"], line["resource"]["kind"]) == ("Add", "Namespace")


@pytest.mark.parametrize(
    "words", [["--watch"], ["--duration", "3"], ["--record", "a", "-n", "shop"]]
)
def test_following_a_cluster_needs_a_target_of_one_kind(words, cluster, tmp_path):
    done = imported(cluster, "--context", "prod", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("controlplane: import: ")
