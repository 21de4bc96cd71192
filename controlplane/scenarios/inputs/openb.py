"""The openb GPU cluster trace: node and pod lists in CSV to Node and Pod trees.

Nodes offer `cpu`, `memory`, 110 `pods` and whole GPUs as `nvidia.com/gpu`; the GPU model is the
label `nvidia.com/gpu.product`. A pod asks for whole GPUs too; the share of a GPU that it used is
kept as an annotation (the trace's authors schedule by it, the default scheduler cannot). Allowed
models (`T4|P100`) become a required node affinity. Latency-sensitive (LS) and Guaranteed pods get
limits equal to their requests, the others requests only. Times are seconds from the trace's start.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import attrs

from controlplane.api.quantity import Quantity
from controlplane.api.tree import Tree
from controlplane.api.validation import dns_subdomain_errors, label_value_errors, parse_int64
from controlplane.errors import UsageError, shown

GPU: Final = "nvidia.com/gpu"
GPU_MODEL: Final = "nvidia.com/gpu.product"
GPU_MILLI: Final = "alibabacloud.com/gpu-milli"
GPU_SPEC: Final = "alibabacloud.com/gpu-card-model"
QOS: Final = "alibabacloud.com/qos"
PODS_PER_NODE: Final = 110
IMAGE: Final = "pause:3.10"

_NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS: Final = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "creation_time",
    "deletion_time",
)
_LIMITED: Final = ("LS", "Guaranteed")


class TraceError(UsageError):
    """A trace that cannot be used: `file:line:column: message`."""

    def __init__(self, file: str, message: str, line: int = 0, column: int = 0) -> None:
        place = ":".join(str(part) for part in (file, line, column) if part)
        super().__init__(f"{place}: {message}")
        self.file = file
        self.line = line
        self.column = column


@attrs.frozen
class TracedPod:
    """A pod of the trace with its life; `deletion_s` None means that it stays."""

    creation_s: int
    deletion_s: int | None
    tree: Tree
    line: int


@attrs.frozen
class _Row:
    """One line of a trace: values by column name, and where each begins."""

    file: str
    line: int
    values: dict[str, str]
    columns: dict[str, int]

    def error(self, column: str, message: str) -> TraceError:
        return TraceError(self.file, f"{column}: {message}", self.line, self.columns[column])

    def text(self, column: str) -> str:
        return self.values[column].strip()

    def number(self, column: str) -> int:
        value = self.text(column)
        number = parse_int64(value)
        if number is None or number < 0:
            raise self.error(column, f"expected a whole number, found {shown(value)}")
        return number

    def name(self, column: str) -> str:
        value = self.text(column)
        errors = dns_subdomain_errors(value)
        if errors:
            raise self.error(column, f"{value!r} is no object name: {errors[0]}")
        return value


def detect(path: str | Path) -> Literal["nodes", "pods"] | None:
    """The type of a file by its header: a node list, a pod list, or no trace."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as lines:
            header = lines.readline(1000)
    except (OSError, UnicodeDecodeError):
        return None
    names = {name.strip() for name in header.split(",")}
    if names.issuperset(_NODE_COLUMNS):
        return "nodes"
    return "pods" if names.issuperset(_POD_COLUMNS) else None


def load_nodes(path: str | Path) -> list[Tree]:
    """The nodes of a node list, in file order."""
    found = []
    seen: dict[str, int] = {}
    for row in _rows(str(path), _NODE_COLUMNS):
        name = _unique(row, "sn", seen)
        capacity = {
            "cpu": str(Quantity.new_milli(row.number("cpu_milli"))),
            "memory": _mebibytes(row),
            "pods": str(PODS_PER_NODE),
        }
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
        }
        gpus, model = row.number("gpu"), row.text("model")
        if gpus:
            capacity[GPU] = str(gpus)
            if model:
                labels[GPU_MODEL] = _model(row, "model", model)
        found.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "status": {"capacity": capacity, "allocatable": capacity},
            }
        )
    return found


def load_pods(path: str | Path, namespace: str = "default") -> list[TracedPod]:
    """The pods of a pod list, by time of creation; those of one second in file order."""
    found = []
    seen: dict[str, int] = {}
    for row in _rows(str(path), _POD_COLUMNS):
        name = _unique(row, "name", seen)
        created = row.number("creation_time")
        deleted = row.number("deletion_time") if row.text("deletion_time") else None
        if deleted is not None and deleted < created:
            raise row.error("deletion_time", f"{deleted} lies before creation_time {created}")
        tree = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "annotations": _annotations(row),
            },
            "spec": _pod_spec(row),
        }
        found.append(TracedPod(created, deleted, tree, row.line))
    found.sort(key=lambda pod: pod.creation_s)
    return found


def _annotations(row: _Row) -> dict[str, str]:
    found = {QOS: row.text("qos")} if row.text("qos") else {}
    if row.number("num_gpu"):
        found[GPU_MILLI] = str(row.number("gpu_milli"))
        if row.text("gpu_spec"):
            found[GPU_SPEC] = row.text("gpu_spec")
    return found


def _pod_spec(row: _Row) -> Tree:
    requests = {
        "cpu": str(Quantity.new_milli(row.number("cpu_milli"))),
        "memory": _mebibytes(row),
    }
    extended = {GPU: str(row.number("num_gpu"))} if row.number("num_gpu") else {}
    limits = requests | extended if row.text("qos") in _LIMITED else extended
    resources: Tree = {"requests": requests | extended}
    if limits:
        resources["limits"] = limits
    spec: Tree = {
        "containers": [{"name": "main", "image": IMAGE, "resources": resources}],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
    }
    models = [model.strip() for model in row.text("gpu_spec").split("|") if model.strip()]
    if extended and models:
        values = [_model(row, "gpu_spec", model) for model in models]
        expression = {"key": GPU_MODEL, "operator": "In", "values": values}
        terms = [{"matchExpressions": [expression]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    return spec


def _mebibytes(row: _Row) -> str:
    return Quantity.new(row.number("memory_mib") << 20, "BinarySI").canonical()


def _model(row: _Row, column: str, model: str) -> str:
    errors = label_value_errors(model)
    if errors:
        raise row.error(column, f"{model!r} is no label value: {errors[0]}")
    return model


def _unique(row: _Row, column: str, seen: dict[str, int]) -> str:
    name = row.name(column)
    if name in seen:
        raise row.error(column, f"{name!r} is already on line {seen[name]}")
    seen[name] = row.line
    return name


def _rows(file: str, required: tuple[str, ...]) -> Iterator[_Row]:
    """The lines of a trace below its header; empty ones are skipped."""
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TraceError(file, (error.strerror or str(error)).lower()) from None
    except UnicodeDecodeError as error:
        raise TraceError(file, f"not UTF-8 text: {error.reason}") from None
    reader = csv.reader(text.splitlines(), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        missing = [name for name in required if name not in header]
        if missing:
            raise TraceError(file, f"missing columns: {', '.join(missing)}", 1, 1)
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            line = reader.line_num
            if len(cells) != len(header):
                raise TraceError(
                    file, f"expected {len(header)} columns, found {len(cells)}", line, 1
                )
            columns, at = {}, 1
            for name, cell in zip(header, cells):
                columns[name] = at
                at += len(cell) + 1
            yield _Row(file, line, dict(zip(header, cells)), columns)
    except csv.Error as error:
        raise TraceError(file, f"broken CSV: {error}", reader.line_num, 1) from None
