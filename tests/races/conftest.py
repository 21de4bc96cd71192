"""The catalogue's tests of one race stand together: a worker that found it need not find it again."""

from __future__ import annotations

import pytest

from tests.races import test_catalogue, test_stories


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = [place for place, item in enumerate(items) if _of_catalogue(item)]
    ordered = sorted((items[place] for place in places), key=_number)
    for place, item in zip(places, ordered, strict=True):
        items[place] = item


def _of_catalogue(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and item.module in (test_catalogue, test_stories)


def _number(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    return "" if callspec is None else str(callspec.params.get("number", ""))
