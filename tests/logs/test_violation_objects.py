"""What a violation is about."""

from __future__ import annotations

from controlplane.logs.violation_objects import ViolationObjects

UID = "afc5650d-a896-4f6d-b558-69fa4b88752e"


def scene(reason: str, *objects: str, **options) -> ViolationObjects:
    made = ViolationObjects(reason, **options)
    for obj in objects:
        made.meet(obj, "")
    return made


def test_objects_are_named_by_name_key_and_uid():
    assert scene("law: web waits", "Pod/default/web").about == {"Pod/default/web"}
    assert scene("law: shop/web waits", "Pod/shop/web", "Pod/shop/other").about == {"Pod/shop/web"}
    by_uid = ViolationObjects(f"law: pod {UID} is gone")
    by_uid.meet("Pod/default/web", UID)
    assert by_uid.about == {"Pod/default/web"}


def test_the_name_of_the_law_names_nothing():
    assert not scene("one at a time: 2 at once", "Pod/default/one").about


def test_leases_and_events_are_meant_only_in_full():
    noise = ("Lease/kube-node-lease/node-1", "Event/default/node-1")
    assert scene("law: node-1 waits", *noise, "Node/node-1").about == {"Node/node-1"}
    assert scene("law: Lease/kube-node-lease/node-1 lapsed", *noise).about == {noise[0]}


def test_what_bears_the_uid_of_a_named_object_is_related():
    found = ViolationObjects("law: default/daily stays")
    found.meet("VolumeSnapshot/default/daily", UID)
    found.meet(f"VolumeSnapshotContent/snapcontent-{UID}", "")
    assert found.related == {f"VolumeSnapshotContent/snapcontent-{UID}"}


def test_what_is_named_counts_most_and_what_is_elsewhere_least():
    found = scene("law: web is on node-1", "Pod/default/web", "Node/node-1", "Pod/default/other")
    found.relate("ReplicaSet/default/owner")
    shares = [
        found.of(obj)
        for obj in (
            "Pod/default/web",
            "ReplicaSet/default/owner",
            "Node/node-1",
            "Pod/default/other",
            "Event/default/web.1",
        )
    ]
    assert shares == sorted(shares, reverse=True)
    assert len(set(shares)) == len(shares)


def test_a_violation_without_names_is_about_the_kinds_that_it_speaks_of():
    objects = ("VolumeSnapshot/default/daily", "VolumeSnapshotClass/fast", "Pod/default/web")
    found = scene("law: 1 of 1 snapshots never became ready", *objects, by_kind=True)
    assert found.about == {"VolumeSnapshot/default/daily"}
