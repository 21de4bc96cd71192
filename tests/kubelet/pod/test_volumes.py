"""Mounts of which the driver's answer does not tell whether they took effect."""

from __future__ import annotations

import pytest

from controlplane.kubelet.pod.volumes import Mounts, PodVolume, PodVolumes

DATA = PodVolume("uid-1", "data", "pv-0", "driver", "vol-0", attaches=True)
PLACE = ("uid-1", "data")


def wanting() -> PodVolumes:
    """The state of a kubelet one pod of which wants a volume."""
    state = PodVolumes(Mounts())
    state.wanted[PLACE] = DATA
    return state


def failing(state: PodVolumes, code: str) -> None:
    """Begin to publish the volume; the driver answers `code`."""
    state.publishing(DATA)
    state.publishing_failed(DATA, code)


@pytest.mark.parametrize(
    "code", ["Unavailable", "DeadlineExceeded", "Aborted", "Canceled", "ResourceExhausted"]
)
def test_a_publication_that_may_have_taken_effect_is_undone_when_the_pod_goes(code: str) -> None:
    state = wanting()
    failing(state, code)
    assert state.to_mount() == [DATA]
    assert state.to_unpublish() == []
    state.drop("uid-1")
    assert state.to_unpublish() == [DATA]
    assert state.released("uid-1"), "the pod does not wait for it"
    state.unpublished(DATA)
    assert state.to_unpublish() == []


@pytest.mark.parametrize("code", ["InvalidArgument", "Internal", "NotFound"])
def test_a_publication_that_failed_for_good_leaves_nothing_to_undo(code: str) -> None:
    state = wanting()
    failing(state, "Unavailable")
    failing(state, code)
    state.drop("uid-1")
    assert state.to_unpublish() == []


def test_a_volume_that_is_known_to_be_published_holds_its_pod() -> None:
    state = wanting()
    state.publishing(DATA)
    state.published(DATA)
    assert state.to_mount() == []
    state.publishing_failed(DATA, "Internal")
    state.drop("uid-1")
    assert not state.released("uid-1")
    assert state.to_unpublish() == [DATA]


def test_what_an_earlier_process_published_stays_uncertain_until_it_is_published_again() -> None:
    state = wanting()
    state.publishing(DATA)
    state.published(DATA)
    later = PodVolumes(state.mounts)
    later.wanted[PLACE] = DATA
    assert later.to_mount() == [DATA]
    failing(later, "Internal")
    later.drop("uid-1")
    assert later.to_unpublish() == [DATA], "a failure does not prove that it is gone"


def test_a_device_that_may_be_staged_is_staged_again_and_unstaged_in_the_end() -> None:
    state = wanting()
    state.staging(DATA)
    state.staging_failed(DATA, "Unavailable")
    assert state.needs_staging(DATA.unique)
    state.drop("uid-1")
    assert state.unused() == [DATA.unique]
    state.staging(DATA)
    state.staging_failed(DATA, "Internal")
    assert state.unused() == []
    state.staging(DATA)
    state.staged(DATA)
    assert not state.needs_staging(DATA.unique)
    assert PodVolumes(state.mounts).needs_staging(DATA.unique), "a later process stages it again"
