"""Documents of other projects' definitions, where the shared folder with them is at hand."""

from pathlib import Path

import pytest

from tests.golden.runner import adapter_for, read_cases, run_case

OPENAPI = Path(__file__).parents[3] / "shared/golden/definitions/api/openapi.jsonl.xz"
SMALL = 60_000


@pytest.mark.skipif(not OPENAPI.exists(), reason="other projects' definitions are not at hand")
def test_documents_of_small_groups_are_equal_to_the_byte():
    adapter = adapter_for(OPENAPI)
    cases = [case for case in read_cases(OPENAPI) if len(str(case.input["crds"])) < SMALL]
    assert len(cases) > 20
    assert {case.id: told for case in cases if (told := run_case(adapter, case))} == {}
