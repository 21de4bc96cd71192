"""Parts of pods that an earlier release drops as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apiserver.kinds.core.pods.earlier_fields import without_earlier

NONE: frozenset[str] = frozenset()


def spec(*containers: dict[str, Any], **other: Any) -> dict[str, Any]:
    return {"containers": list(containers), **other}


IMAGES = spec(
    {"name": "c", "volumeMounts": [{"name": "image"}, {"name": "plain"}]},
    {"name": "d", "volumeMounts": [{"name": "image"}]},
    volumes=[{"name": "image", "image": {"reference": "r"}}, {"name": "plain", "emptyDir": {}}],
)


@pytest.mark.parametrize(
    ("release", "kept"), [("1.32", False), ("1.34", False), ("1.35", True), ("1.36", True)]
)
def test_volumes_of_images_and_their_mounts_are_dropped_before_1_35(
    release: str, kept: bool
) -> None:
    found = without_earlier(IMAGES, {}, release, NONE)
    names = [volume["name"] for volume in found["volumes"]]
    assert names == (["image", "plain"] if kept else ["plain"])
    assert (found is IMAGES) is kept
    if not kept:
        assert found["containers"] == [
            {"name": "c", "volumeMounts": [{"name": "plain"}]},
            {"name": "d"},
        ]


def test_a_pod_that_has_a_volume_of_an_image_keeps_it() -> None:
    assert without_earlier(IMAGES, IMAGES, "1.34", NONE) is IMAGES


def test_1_34_drops_restart_policies_of_containers_but_those_of_sidecars() -> None:
    given = spec(
        {"name": "c", "restartPolicy": "Never"},
        initContainers=[
            {"name": "sidecar", "restartPolicy": "Always"},
            {"name": "once", "restartPolicy": "OnFailure"},
        ],
    )
    found = without_earlier(given, {}, "1.34", NONE)
    assert found["containers"] == [{"name": "c"}]
    assert found["initContainers"] == [
        {"name": "sidecar", "restartPolicy": "Always"},
        {"name": "once"},
    ]
    assert without_earlier(given, given, "1.34", NONE) == given
    assert without_earlier(given, {}, "1.35", NONE) == given


def test_restart_policies_reach_validation_in_releases_that_refuse_them() -> None:
    given = spec({"name": "c", "restartPolicy": "Never"})
    assert without_earlier(given, {}, "1.33", NONE) == given


@pytest.mark.parametrize(("release", "mount"), [("1.32", "Default"), ("1.33", "Unmasked")])
def test_1_32_makes_every_proc_mount_the_default_one(release: str, mount: str) -> None:
    given = spec({"name": "c", "securityContext": {"procMount": "Unmasked"}})
    found = without_earlier(given, {}, release, NONE)
    assert found["containers"][0]["securityContext"] == {"procMount": mount}
    assert without_earlier(given, given, release, NONE) == given
