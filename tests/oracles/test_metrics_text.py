"""The metrics text against the parser of prometheus-client: all that we write is read back as it was."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.metrics.exposition import text_of
from controlplane.metrics.family import Series

parser = pytest.importorskip("prometheus_client.parser")

NAMES = ("alpha_bytes", "beta_seconds", "gamma")
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), max_size=12)
HELP = st.text('a\\\n"é', max_size=8)
"""Without blanks: the parser splits lines at them. Our help texts are sentences with single blanks."""
BOUNDS = (1, 5, 10_000, 2_500_000_000)


@st.composite
def families(draw):
    """Families of every kind, each with samples under random label values."""
    made = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3)):
        kind = draw(st.sampled_from(["counter", "gauge", "histogram"]))
        labels = draw(st.sampled_from([(), ("one",), ("one", "two")]))
        suffix = "_total" if kind == "counter" else ""
        series = Series(
            f"{name}{suffix}", kind, draw(HELP), labels, BOUNDS if kind == "histogram" else (),
            draw(st.sampled_from([1, 1_000_000_000])) if kind == "histogram" else 1,
        )  # fmt: skip
        values = {}
        for key in draw(st.lists(st.tuples(*(TEXTS for _ in labels)), unique=True, max_size=3)):
            if kind == "histogram":
                values[key] = series.histogram()
                for each in draw(st.lists(st.integers(0, 3_000_000_000), max_size=5)):
                    values[key].observe(each)
            else:
                values[key] = draw(st.integers(0, 1 << 50) | st.floats(0, 1e15))
        made.append(series.family(values))
    return made


def written(family):
    """The samples of a family, as a reader of the text has to find them."""
    for sample in family.samples:
        labels = dict(sample.labels)
        if family.kind != "histogram":
            yield family.name, labels, float(sample.value)
            continue
        value = sample.value
        for bound, count in zip(value.bounds, value.at_most):
            yield f"{family.name}_bucket", {**labels, "le": float(bound)}, float(count)
        yield f"{family.name}_bucket", {**labels, "le": float("inf")}, float(value.count)
        yield f"{family.name}_sum", labels, float(value.sum)
        yield f"{family.name}_count", labels, float(value.count)


def read(sample):
    labels = dict(sample.labels)
    if "le" in labels:
        labels["le"] = float(labels["le"])
    return sample.name, labels, sample.value


@settings(max_examples=200)
@given(families())
def test_what_is_written_is_read_back(made):
    found = list(parser.text_string_to_metric_families(text_of(made)))
    assert [each.type for each in found] == [each.kind for each in made]
    assert [each.documentation for each in found] == [each.help for each in made]
    for ours, theirs in zip(made, found, strict=True):
        assert [read(each) for each in theirs.samples] == list(written(ours))
