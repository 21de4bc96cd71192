"""Alarms of single runs, from records made by hand."""

from __future__ import annotations

import pytest

from controlplane.operators.observation import Record
from controlplane.operators.oracles import calm_alarms


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (
            "starting\nFileNotFoundError: '/certs/ca.crt'\n\n",
            ", after it printed: FileNotFoundError: '/certs/ca.crt'",
        ),
        ("", ", without output"),
    ],
)
def test_an_exit_is_told_with_the_last_line_of_the_process(output, said):
    outputs = (("system/other", "late words"), ("system/operator", output))
    record = Record((), (), (), {}, (), (), exits=(("system/operator", 1),), outputs=outputs)
    told = [each.text for each in calm_alarms([record, record])]
    assert told == [f"system/operator: the process ended by itself, exit code 1{said}"]
