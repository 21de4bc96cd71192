"""CustomResourceDefinitions in short form."""

from __future__ import annotations

from controlplane.api.custom_schemas import STRING, column, definition, items, record, version


def test_a_definition_names_its_kind_in_all_forms() -> None:
    spec = record({"size": STRING}, ("size",))
    made = definition(
        "Wheel",
        "wheels",
        "car.example",
        [version("v1", record({"spec": spec}), status=True)],
        ("w",),
    )
    assert made["metadata"]["name"] == "wheels.car.example"
    assert made["spec"]["scope"] == "Namespaced"
    assert made["spec"]["names"] == {
        "kind": "Wheel",
        "listKind": "WheelList",
        "plural": "wheels",
        "singular": "wheel",
        "shortNames": ["w"],
    }
    (served,) = made["spec"]["versions"]
    schema = served["schema"]["openAPIV3Schema"]
    assert list(schema["properties"]) == ["apiVersion", "kind", "metadata", "spec"]
    assert served["subresources"] == {"status": {}}
    assert "additionalPrinterColumns" not in served


def test_a_version_without_a_status_has_no_subresource() -> None:
    age = column("Age", ".metadata.creationTimestamp", "date")
    wide = column("Size", ".spec.size", "string", "Its size.", 1)
    made = version("v1", record({}), (age, wide), stored=False, status=False)
    assert "subresources" not in made
    assert not made["storage"]
    assert made["additionalPrinterColumns"] == [
        {"name": "Age", "jsonPath": ".metadata.creationTimestamp", "type": "date"},
        {
            "name": "Size",
            "jsonPath": ".spec.size",
            "type": "string",
            "description": "Its size.",
            "priority": 1,
        },
    ]


def test_a_list_may_leave_its_kind_open() -> None:
    assert items(STRING, kind="") == {"type": "array", "items": STRING}
    assert items(STRING)["x-kubernetes-list-type"] == "atomic"
