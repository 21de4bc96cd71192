"""Plugins of users and the scheduler's configuration file, through the command line and the example."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from click.testing import CliRunner

from controlplane.cli.run import command
from controlplane.errors import UsageError
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.engine.summary import summary_of
from controlplane.scenarios.manifest_run import SCENARIO
from controlplane.scheduler.config import user_plugins
from controlplane.user_code import load_module

EXAMPLES = Path(__file__).parents[3] / "examples"
PLUGIN = str(EXAMPLES / "scheduler_plugin.py")
CONFIG = EXAMPLES / "scheduler_config.yaml"
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def pod(name, labels="{}"):
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {labels}}}\n"
        "spec: {containers: [{name: main, image: app}]}\n"
    )


NODE = """apiVersion: v1
kind: Node
metadata: {name: NAME, labels: LABELS}
status: {capacity: {cpu: "4", memory: 8Gi, pods: "110"}, allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
"""


def test_the_example_keeps_pods_off_nodes_in_maintenance_and_holds_some(tmp_path):
    file = tmp_path / "pods.yaml"
    file.write_text(
        "---\n".join(
            [
                NODE.replace("NAME", "a").replace("LABELS", "{example.com/maintenance: 'yes'}"),
                NODE.replace("NAME", "b").replace("LABELS", "{}"),
                *(pod(f"web-{number}") for number in range(3)),
            ]
        )
    )
    run = Execution(
        plan_of(
            SCENARIO,
            files=[str(file)],
            scheduler_config=CONFIG,
            scheduler_plugin=[PLUGIN],
            explain_scheduling=True,
        )
    )
    run.execute("bare")
    assert [line.node for line in summary_of(run).pods] == ["b", "b", "b"]
    assert run.recording().header["options"]["explain_scheduling"] is True


def test_a_plugin_may_come_from_an_installed_package(monkeypatch):
    module = load_module(PLUGIN, "scheduler plugin")
    point = EntryPoint("maintenance", f"{module.__name__}:Maintenance", user_plugins.GROUP)
    monkeypatch.setattr(user_plugins, "entry_points", lambda group: [point])
    assert "Maintenance" in user_plugins.registry_with()
    assert "OneByOne" not in user_plugins.registry_with()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def broken(:\n", "SyntaxError"),
        ("x = 1\n", "defines no scheduler plugin"),
        (
            "from controlplane.scheduler.framework.interface import FilterPlugin\n"
            "class Mine(FilterPlugin):\n    name = 'NodeName'\n",
            "a plugin called 'NodeName' exists already",
        ),
    ],
)
def test_a_module_that_will_not_do_is_one_line(tmp_path, text, message):
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(UsageError, match=message) as found:
        user_plugins.registry_with([str(path)])
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: KubeSchedulerConfiguration\n", "Object 'apiVersion' is missing in"),
        (HEAD + "parallelism: -1\n", "parallelism: Invalid value: -1"),
        (HEAD + "parallelismus: 1\n", 'unknown field "parallelismus"'),
        (HEAD + "profiles: [{plugins: {filter: {enabled: [{name: Nope}]}}}]\n", "Nope"),
        (
            HEAD + "profiles: [{pluginConfig: [{name: Coscheduling, args: "
            "{permitWaitingTimeSeconds: soon}}]}]\n",
            "cannot unmarshal string into Go struct field CoschedulingArgs.permitWaitingTimeSeconds of type int64",
        ),
        (
            HEAD + "profiles: [{plugins: {score: {enabled: [{name: NodeMetadata}]}}}]\n",
            'initializing plugin "NodeMetadata": invalid NodeMetadataArgs',
        ),
    ],
)
def test_a_bad_configuration_is_upstreams_error_on_one_line_and_status_2(tmp_path, text, message):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    pods = tmp_path / "pod.yaml"
    pods.write_text(pod("web"))
    done = CliRunner().invoke(command, [str(pods), "--scheduler-config", str(path)])
    assert isinstance(done.exception, UsageError)
    assert message in str(done.exception)
    assert "\n" not in str(done.exception)
    assert done.output == ""


def test_of_a_long_file_that_is_no_configuration_the_beginning_is_shown(tmp_path):
    file = tmp_path / "words"
    file.write_text("root:x\n" * 5000)
    with pytest.raises(UsageError) as caught:
        user_plugins.load_config(file, user_plugins.registry_with(()))
    assert len(str(caught.value)) < 600 + len(str(file))
    assert "\n" not in str(caught.value)
