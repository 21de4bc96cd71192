"""The files that a recording may make the program read and run."""

from __future__ import annotations

import os
import sys

import msgpack
import pytest

from actors.strategies import Fifo
from controlplane.errors import UsageError
from controlplane.scenarios.engine.allowed_code import CODE_OPTIONS, AllowedCode, source_of
from controlplane.scenarios.engine.common_options import COMMON
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import digest, plan_of
from controlplane.scenarios.search import loading, replaying
from tests.scenarios.search.test_replaying import START, resealed

PLUGIN = "import pathlib\npathlib.Path({mark!r}).touch()\n"


@pytest.fixture(scope="module")
def content():
    run = Execution(plan_of(loading.from_module("controlplane.races.r49992")), Fifo())
    run.execute("bare")
    return msgpack.unpackb(run.recording().to_bytes()[START:], strict_map_key=False)


@pytest.fixture
def stored(tmp_path, content):
    """Stores the recording with other parts of its header, and answers its path."""

    def store(**header):
        file = tmp_path / "f.rec"
        file.write_bytes(resealed({**content, "header": {**content["header"], **header}}))
        return file

    return store


@pytest.fixture
def plugin(tmp_path):
    """A plugin file, and the file that shows that it was run."""
    mark = tmp_path / "run"
    file = tmp_path / "plugin_of_a_stranger.py"
    file.write_text(PLUGIN.format(mark=str(mark)))
    return file, mark


def opened(file, *allowed):
    return replaying.plan_of_recording(
        replaying.load(file), file, allowed=AllowedCode(map(str, allowed))
    )


def test_a_plugin_that_a_recording_names_is_not_run(stored, content, plugin):
    file, mark = plugin
    recording = stored(options={**content["header"]["options"], "scheduler_plugin": [str(file)]})
    with pytest.raises(UsageError, match=f"if you trust that code: --allow-code {file}"):
        opened(recording)
    assert not mark.exists()


def test_an_allowed_plugin_must_be_the_recorded_one(stored, content, plugin):
    file, mark = plugin
    options = {**content["header"]["options"], "scheduler_plugin": [str(file)]}
    recording = stored(options=options, inputs={"scheduler_plugin": "0" * 32})
    with pytest.raises(UsageError, match="recorded with another content of scheduler_plugin"):
        opened(recording, file)
    assert not mark.exists()


def test_a_module_that_a_recording_names_is_not_imported(stored, content, plugin, monkeypatch):
    file, mark = plugin
    monkeypatch.syspath_prepend(str(file.parent))
    options = {**content["header"]["options"], "scheduler_plugin": [file.stem]}
    with pytest.raises(UsageError, match=f"--allow-code {file.stem}"):
        opened(stored(options=options))
    assert source_of(file.stem) == file.read_bytes()
    assert not mark.exists()
    assert file.stem not in sys.modules


def test_a_scenario_beside_a_recording_is_not_run(stored, plugin):
    file, mark = plugin
    told = {"name": "x", "address": file.name, "source": loading.digest(file.read_bytes())}
    recording = stored(scenario=told)
    with pytest.raises(UsageError, match="it would run the code of"):
        opened(recording)
    assert not mark.exists()
    with pytest.raises(UsageError, match="expected one scenario"):
        opened(recording, file.parent)
    assert mark.exists()


@pytest.mark.parametrize("option", ["kubelet_config", "scheduler_config"])
def test_devices_and_pipes_that_a_recording_names_are_not_read(stored, content, option, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for name in ("/dev/zero", str(pipe)):
        options = {**content["header"]["options"], option: name}
        with pytest.raises(
            UsageError, match="expected a file or a folder, found a device or a pipe"
        ):
            opened(stored(options=options))


def test_more_bytes_than_a_run_takes_are_not_read(tmp_path):
    file = tmp_path / "large"
    with file.open("wb") as made:
        made.truncate((1 << 30) + 1)
    with pytest.raises(UsageError, match="more than 100,000 files or 1,024 MiB"):
        digest([str(file)])


def test_digests_that_are_no_bytes_are_a_damaged_recording(tmp_path, content):
    for key in ("digests", "checks"):
        file = tmp_path / "f.rec"
        file.write_bytes(resealed({**content, key: "text"}))
        with pytest.raises(Exception, match="damaged recording") as caught:
            replaying.load(file)
        assert type(caught.value).__name__ == "RecordingError"


def test_every_option_that_names_code_can_be_allowed():
    assert sorted(each.key for each in COMMON if each.names_code) == sorted(CODE_OPTIONS)
