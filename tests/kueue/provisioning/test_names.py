"""Names of requests and templates."""

from __future__ import annotations

import hashlib

import pytest

from controlplane.kueue.provisioning.names import attempt_of, request_name, template_name


def test_names_are_put_together_from_workload_check_attempt_and_pod_set():
    assert request_name("work", "check", 2) == "work-check-2"
    assert template_name("work-check-2", "main") == "ppt-work-check-2-main"


def test_a_long_name_ends_with_a_hash_of_all_of_it():
    whole = f"{'w' * 250}-check-1"
    name = request_name("w" * 250, "check", 1)
    assert name == f"{'w' * 247}-{hashlib.sha1(whole.encode()).hexdigest()[:5]}"
    assert len(name) == 253
    assert name != request_name("w" * 250, "check", 2)


@pytest.mark.parametrize(
    ("name", "attempt"),
    [
        ("work-check-1", 1),
        ("work-check-12", 12),
        ("work-check-", None),
        ("work-check-1a", None),
        ("work-check-²", None),
        ("work-check", None),
        ("other-check-1", None),
        ("work-check-more-1", None),
    ],
)
def test_the_attempt_is_read_from_the_names_of_this_check_alone(name, attempt):
    assert attempt_of(name, "work", "check") == attempt
