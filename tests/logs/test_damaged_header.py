"""A log whose first line says of its vocabulary what none says is read, and told of."""

import json

import pytest

from controlplane.logs.reading import RunLog

HEADER = {"actor": "world", "event": "log", "run": "a", "step": 0, "t": 0, "task": "world"}


@pytest.mark.parametrize("version", ["2", {"a": 1}, [], None, -1, 2**70])
def test_a_version_that_is_none_is_told(tmp_path, version):
    file = tmp_path / "log.jsonl"
    file.write_text(json.dumps({**HEADER, "data": {"vocabulary": version}}) + "\n")
    log = RunLog(file)
    assert len(log.damage) == 1
    assert "may be misunderstood" in log.damage[0]
