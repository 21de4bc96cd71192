"""What stands in a recording's header is as it was, or is refused in one line."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import RecordingError
from actors.strategies import Fifo
from controlplane.errors import UsageError
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import loading, replaying
from tests.actors.test_recording import resealed

START = 4 + 16


@pytest.fixture(scope="module")
def content():
    run = Execution(plan_of(loading.from_module("controlplane.races.r49992")), Fifo())
    run.execute("bare")
    return msgpack.unpackb(run.recording().to_bytes()[START:], strict_map_key=False)


def refused(tmp_path, content, **header):
    """What is said of a recording whose header has these parts."""
    file = tmp_path / "f.rec"
    file.write_bytes(resealed({**content, "header": {**content["header"], **header}}))
    with pytest.raises((UsageError, RecordingError)) as caught:
        replaying.plan_of_recording(replaying.load(file), file)
    text = str(caught.value)
    assert text.startswith(f"{file}: ")
    assert "\n" not in text
    assert len(text) < 2500 + len(str(file))
    return text.removeprefix(f"{file}: ")


def test_a_recording_is_read_as_it_was_written(tmp_path, content):
    file = tmp_path / "f.rec"
    file.write_bytes(resealed(content))
    recording = replaying.load(file)
    plan = replaying.plan_of_recording(recording, file)
    run = replaying.replayed(plan, recording)
    assert run.execute("bare").trace_hash == recording.trace_hash


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ({"scenario": None}, "scenario is None, expected a map"),
        ({"scenario": "churn"}, "scenario is 'churn', expected a map"),
        ({"scenario": {"name": "x", "address": ""}}, "scenario has no 'source'"),
        ({"scenario": {"name": "x", "address": 1, "source": ""}}, "has 'address': 1"),
        ({"options": []}, "options is []"),
        ({"options": {1: 2}}, "options is {1: 2}, expected a map with texts as keys"),
        ({"inputs": 7}, "inputs is 7"),
        ({"inputs": {"a": None}}, "inputs has 'a': None, expected a text"),
        ({"gates": 0}, "gates is 0"),
        ({"gates": {"49992": 1}}, "gates has '49992': 1, expected a text"),
        ({"gates": {"x": "off"}}, "no fix gate 'x'"),
        ({"gates": {"49992": "x" * 5000}}, "fix 49992 has no variant 'xxx"),
        ({"release": 1.36}, "release is 1.36, expected a text"),
        ({"release": "9" * 5000}, "release '999"),
        ({"seed": "1"}, "seed is '1', expected a whole number"),
        ({"token_key": "xyz"}, "token_key is no hexadecimal number"),
        ({"options": {"nodes": "9" * 5000}}, "--nodes '999"),
        ({"options": {"nodes": -1}}, "--nodes -1: expected at least 0"),
        ({"options": {"nodes": 2**63}}, "at most 100000"),
        ({"options": {"without": "x" * 5000}}, "--without: no part 'xxx"),
        ({"options": {"admission": "x" * 5000}}, "--admission: no admission plugin 'xxx"),
        ({"options": {"y" * 5000: 1}}, "has no option 'yyy"),
    ],
    ids=lambda part: str(part)[:60],
)
def test_a_header_of_another_form_is_told(tmp_path, content, header, said):
    assert said in refused(tmp_path, content, **header)


def test_an_address_that_no_system_takes_is_not_here(tmp_path, content):
    for address in ("x" * 5000 + ".py", "a\0b.py", "/".join("a" * 5000) + ".yaml"):
        told = {**content["header"]["scenario"], "address": address}
        assert "is not here" in refused(tmp_path, content, scenario=told)


@pytest.mark.parametrize("address", ["controlplane.", "controlplane..x", "controlplane.cli.main"])
def test_an_address_that_is_no_scenario_is_refused(tmp_path, content, address):
    told = {**content["header"]["scenario"], "address": address}
    assert "does not exist" in refused(tmp_path, content, scenario=told)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text()
    | st.binary(max_size=9)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCALARS, inner, max_size=3)
)


@pytest.mark.slow
@given(st.data())
def test_whatever_stands_in_a_header_it_is_taken_or_refused_in_one_line(
    tmp_path_factory, content, data
):
    file = tmp_path_factory.getbasetemp() / "any.rec"
    header = dict(content["header"])
    part = data.draw(st.sampled_from([*replaying.PARTS, "seed", "token_key"]))
    if part in ("options", "scenario") and data.draw(st.booleans()):
        header[part] = dict(header[part])
        key = data.draw(
            st.sampled_from([*header[part], "until", "machine", "controllers", "epoch"])
        )
        header[part][key] = data.draw(VALUES)
    else:
        header[part] = data.draw(VALUES)
    file.write_bytes(resealed({**content, "header": header}))
    try:
        replaying.plan_of_recording(replaying.load(file), file)
    except (UsageError, RecordingError) as error:
        assert "\n" not in str(error)
