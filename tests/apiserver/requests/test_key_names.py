"""Names that cannot stand in a path are refused before anything is looked for."""

from __future__ import annotations

import pytest

from tests.apiserver.world import World


@pytest.mark.parametrize(
    ("name", "problem"), [("a%2Fb", "may not contain '%'"), ("..", "may not be '..'")]
)
@pytest.mark.parametrize("verb", ["get", "delete"])
def test_a_name_with_a_percent_sign_is_a_bad_request(verb: str, name: str, problem: str) -> None:
    answer = World().do(verb, "configmaps", name)
    assert answer.code == 400
    assert answer.tree["message"] == f'Name parameter invalid: "{name}": {problem}'
