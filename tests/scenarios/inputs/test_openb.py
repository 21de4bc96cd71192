from pathlib import Path

import pytest

from controlplane.api.core import Node, Pod
from controlplane.scenarios.inputs.openb import TraceError, detect, load_nodes, load_pods

EXAMPLES = Path(__file__).parents[3] / "examples"
NODE_HEADER = "sn,cpu_milli,memory_mib,gpu,model\n"
POD_HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time\n"
)


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "trace.csv"
        path.write_text(text)
        return path

    return write


def test_the_header_tells_what_a_file_is(file, tmp_path):
    assert detect(EXAMPLES / "nodes.csv") == "nodes"
    assert detect(EXAMPLES / "pods.csv") == "pods"
    assert detect(file("a,b\n")) is None
    assert detect(EXAMPLES / "shop.yaml") is None
    assert detect(tmp_path / "gone.csv") is None


def test_nodes_offer_whole_gpus_and_carry_the_model(file):
    (tree,) = load_nodes(file(f"{NODE_HEADER}n1,32500,262144,2,T4\n"))
    node = Node.from_tree(tree)
    shown = {name: str(amount) for name, amount in node.status.allocatable.items()}
    assert shown == {"cpu": "32500m", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "2"}
    assert node.labels["nvidia.com/gpu.product"] == "T4"


def test_pods_ask_for_whole_gpus_of_the_allowed_models(file):
    line = "p1,12000,16384,1,460,T4|P100,LS,Running,5,20,6\n"
    (entry,) = load_pods(file(POD_HEADER + line))
    pod = Pod.from_tree(entry.tree)
    assert (entry.creation_s, entry.deletion_s, entry.line) == (5, 20, 2)
    resources = pod.spec.containers[0].resources
    assert resources.requests == resources.limits
    assert str(resources.requests["nvidia.com/gpu"]) == "1"
    required = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required.node_selector_terms[0].match_expressions[0].values == ("T4", "P100")
    assert pod.annotations["alibabacloud.com/gpu-milli"] == "460"


def test_best_effort_pods_have_no_limits_but_on_gpus(file):
    lines = "p1,1000,1024,0,0,,BE,Running,0,1,0\np2,1000,1024,1,1000,,BE,Pending,0,,\n"
    first, second = load_pods(file(POD_HEADER + lines))
    assert "limits" not in first.tree["spec"]["containers"][0]["resources"]
    assert second.tree["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert second.deletion_s is None


def test_pods_come_in_order_of_creation(file):
    lines = "".join(f"p{t},1,1,0,0,,LS,Running,{t},{t + 9},{t}\n" for t in (5, 3, 4))
    assert [entry.creation_s for entry in load_pods(file(POD_HEADER + lines))] == [3, 4, 5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sn,cpu_milli\n", "1:1: missing columns: memory_mib, gpu, model"),
        (f"{NODE_HEADER}n1,x,1,0,\n", "2:4: cpu_milli: expected a whole number, found 'x'"),
        (f"{NODE_HEADER}n1,1,1,0\n", "2:1: expected 5 columns, found 4"),
        (f"{NODE_HEADER}n1,1,1,0,\n\nn1,1,1,0,\n", "4:1: sn: 'n1' is already on line 2"),
        (f"{NODE_HEADER}n1,1,1,-1,\n", "2:8: gpu: expected a whole number, found '-1'"),
        (f"{NODE_HEADER}n1,1,1,1,a b\n", "2:10: model: 'a b' is no label value: "),
        (f"{NODE_HEADER}N 1,1,1,1,\n", "2:1: sn: 'N 1' is no object name: "),
    ],
)
def test_bad_lines_are_named_by_line_and_column(file, text, message):
    path = file(text)
    with pytest.raises(TraceError) as error:
        load_nodes(path)
    assert str(error.value).startswith(f"{path}:{message}")


def test_a_pod_cannot_go_before_it_came(file):
    with pytest.raises(TraceError, match="deletion_time: 4 lies before creation_time 5"):
        load_pods(file(f"{POD_HEADER}p,1,1,0,0,,LS,Running,5,4,5\n"))


def test_a_missing_file_is_named():
    with pytest.raises(TraceError, match=r"gone\.csv: no such file or directory"):
        load_nodes("gone.csv")


def test_the_example_traces_load():
    assert len(load_nodes(EXAMPLES / "nodes.csv")) == 10
    assert len(load_pods(EXAMPLES / "pods.csv")) == 40
