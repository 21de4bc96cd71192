from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.kubelet.cm.checkpoint import CheckpointError
from controlplane.kubelet.cm.cpumanager.state import CPUState, restore
from controlplane.kubelet.cm.cpuset import CPUSet


def checksum(state: CPUState) -> int:
    found: int = json.loads(state.text)["checksum"]
    return found


@pytest.mark.parametrize(
    ("default", "published"),
    [("0-63", 1058907510), ("2-15,17-31,34-47,49-63", 4141502832), ("0-7", 14413152)],
)
def test_published_checksums_come_out(default: str, published: int) -> None:
    assert checksum(CPUState("static", CPUSet.parse(default))) == published


def test_a_published_file_with_an_assignment_is_reproduced_to_the_byte() -> None:
    text = (
        '{"policyName":"static","defaultCpuSet":"0-7,16-55","entries":'
        '{"b0e4cb0d-47b0-4ed3-b707-4baf7eb0875a":'
        '{"nf-97cb00a04fbdc660b8193d6093288930":"8-15,56-63"}},"checksum":2824956018}'
    )
    assert restore(text, "static", {}).text == text


def test_a_file_of_the_oldest_format_is_read_with_the_names_that_the_runtime_knows() -> None:
    text = (
        '{"policyName":"none","defaultCpuSet":"1-3",'
        '"entries":{"containerID1":"4-6","containerID2":"1-3"},"checksum":3680390589}'
    )
    known = {"containerID1": ("pod", "container1"), "containerID2": ("pod", "container2")}
    state = restore(text, "none", known)
    assert state.get("pod", "container1") == CPUSet.parse("4-6")
    assert checksum(state) == 3610638499
    with pytest.raises(CheckpointError, match="containerID 'containerID2' not found in initial"):
        restore(text, "none", {"containerID1": ("pod", "container1")})


def test_the_file_of_pods_as_a_whole_has_the_checksum_of_upstreams_test() -> None:
    state = CPUState("none", CPUSet.parse("1-3"), pods={}).with_pod("pod", CPUSet.parse("4-6"))
    assert '"podEntries":{"pod":{"cpuSet":"4-6"}}' in state.text
    assert restore(state.text, "none", {}, pod_entries=True) == state


sets = st.lists(st.integers(0, 200), max_size=8).map(CPUSet.of)
names = st.text("abc-019", min_size=1, max_size=6)


@pytest.mark.slow
@given(sets, st.dictionaries(names, st.dictionaries(names, sets, min_size=1), max_size=3))
def test_what_is_written_is_read_back(
    default: CPUSet, assignments: dict[str, dict[str, CPUSet]]
) -> None:
    state = CPUState("static", default, assignments)
    assert restore(state.text, "static", {}) == state


@given(sets, sets, st.integers(0, 1 << 32))
def test_a_changed_file_is_noticed(default: CPUSet, other: CPUSet, added: int) -> None:
    text = CPUState("static", default, {"p": {"c": other}}).text
    tree = json.loads(text)
    tree["checksum"] += added
    if tree["checksum"] != json.loads(text)["checksum"]:
        with pytest.raises(CheckpointError, match="cannot unmarshal object into Go struct field"):
            restore(json.dumps(tree), "static", {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "unexpected end of JSON input"),
        ("{x", "invalid character 'x' looking for beginning of object key string"),
        ("{}}", "invalid character '}' after top-level value"),
        (
            '{"checksum":-1}',
            "cannot unmarshal number -1 into Go struct field CPUManagerCheckpointV1",
        ),
        ('{"checksum":1}', "checkpoint is corrupted"),
        ("{}", 'configured policy "static" differs from state checkpoint policy ""'),
        (
            '{"policyName":"static","defaultCpuSet":"3-1","checksum":0}',
            'could not parse default cpu set "3-1": invalid range "3-1" (3 > 1)',
        ),
    ],
)
def test_a_file_that_cannot_be_used_says_what_to_do(text: str, said: str) -> None:
    with pytest.raises(CheckpointError) as error:
        restore(text, "static", {})
    message = str(error.value)
    assert said in message
    assert message.startswith("could not restore state from checkpoint: ")
    assert message.endswith(
        "please drain this node and delete the CPU manager checkpoint file "
        '"/var/lib/kubelet/cpu_manager_state" before restarting Kubelet'
    )
