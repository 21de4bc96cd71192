"""Operations of the managers that other tasks come in between."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.decisions import Write
from controlplane.kubelet.loops.carrying_out import carry_out
from controlplane.kubelet.loops.host import Host


class Disk:
    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def write_later(self, file: str, text: Any) -> None:
        self.files[file] = text()

    def sync(self) -> None:
        pass


class Stop:
    def __await__(self) -> Any:
        yield


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_file_has_what_changed_last_whichever_task_comes_to_write_first(order) -> None:
    disk, host = Disk(), Host(1)
    ctx: Any = SimpleNamespace(disk=disk, noting=False, region=lambda _point: Stop())

    def operation(text: str) -> Any:
        yield Write("state", SimpleNamespace(text=text))  # type: ignore[arg-type]

    tasks = [carry_out(ctx, host, operation(text)) for text in ("first", "second")]
    for task in tasks:
        task.send(None)
    for at in order:
        with pytest.raises(StopIteration):
            tasks[at].send(None)
    assert disk.files == {"state": "second"}
    assert host.writing == 0
