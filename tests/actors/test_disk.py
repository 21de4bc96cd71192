"""The disk: what is written later is what was written, before and after a crash."""

from __future__ import annotations

from actors.disk import Disk


def test_what_is_written_later_is_asked_for_when_it_is_read() -> None:
    asked = []

    def make() -> str:
        asked.append(1)
        return "text"

    disk = Disk()
    disk.write_later("file", make)
    assert (asked, disk.unsynced(), disk.keys()) == ([], 1, ["file"])
    assert disk.read("file") == "text"
    disk.sync()
    assert disk.read("file") == "text"
    assert disk.crash(lambda n: n - 1) == 0
    assert disk.read("file") == "text"


def test_a_crash_loses_a_suffix_of_what_was_not_synced() -> None:
    disk = Disk()
    disk.write("a", 1)
    disk.write_later("b", lambda: 2)
    assert disk.crash(lambda n: 1) == 1
    assert (disk.read("a"), disk.read("b", "gone")) == (1, "gone")


def test_whatever_may_change_what_is_read_is_counted() -> None:
    disk = Disk()
    seen = [disk.changes]
    for change in (
        lambda: disk.write("a", 1),
        lambda: disk.write_later("b", lambda: 2),
        lambda: disk.remove("a"),
        lambda: disk.crash(lambda n: n - 1),
    ):
        change()
        seen.append(disk.changes)
    assert sorted(set(seen)) == seen
    disk.sync()
    disk.read("b")
    assert disk.changes == seen[-1]
