"""OTLP JSON: OpenTelemetry's log data model, a line for each batch of events of one actor.

A line is an ExportLogsServiceRequest, as the collector's otlpjsonfile receiver reads them. Rules:
opentelemetry-specification, logs/data-model.md, and the JSON mapping of its protobuf (64-bit numbers are
texts, ids are in hex). A span is a step and a trace is a run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from controlplane.logs.export.encoding import compact
from controlplane.logs.export.epoch import at, epoch_of
from controlplane.logs.phrases import phrase
from controlplane.logs.reading import Events, Line

BATCH = 512
SEVERITY = {
    "": (1, "TRACE"),
    "trace": (1, "TRACE"),
    "debug": (5, "DEBUG"),
    "info": (9, "INFO"),
    "warning": (13, "WARN"),
    "error": (17, "ERROR"),
}


def lines(log: Events) -> Iterator[str]:
    """The text of the file, piece by piece."""
    epoch = epoch_of(log)
    batch: list[dict[str, Any]] = []
    actor = run = ""
    for line in log:
        if line.event == "log":
            continue
        if batch and (line.actor != actor or len(batch) == BATCH):
            yield _request(actor, run, batch)
            batch = []
        actor, run = line.actor, line.run
        batch.append(_record(line, epoch))
    if batch:
        yield _request(actor, run, batch)


def _request(actor: str, run: str, records: list[dict[str, Any]]) -> str:
    resource = _attributes({"service.name": actor, "service.namespace": "controlplane", "run": run})
    scope = {"scope": {"name": "controlplane"}, "logRecords": records}
    return (
        compact({"resourceLogs": [{"resource": {"attributes": resource}, "scopeLogs": [scope]}]})
        + "\n"
    )


def _record(line: Line, epoch: int) -> dict[str, Any]:
    number, text = SEVERITY[line.level]
    moment = str(at(epoch, line.t))
    known: dict[str, Any] = {"step": line.step, "task": line.task}
    if line.obj:
        known["obj"] = line.obj
    if line.uid:
        known["uid"] = line.uid
    if line.rv is not None:
        known["rv"] = line.rv
    if line.cause:
        known["cause"] = list(line.cause)
    if line.data:
        known["data"] = line.data
    record = {
        "timeUnixNano": moment,
        "observedTimeUnixNano": moment,
        "severityNumber": number,
        "severityText": text,
        "eventName": line.event,
        "body": {"stringValue": phrase(line) or line.event},
        "attributes": _attributes(known),
        "traceId": hashlib.blake2b(line.run.encode(), digest_size=16).hexdigest(),
    }
    if line.step:
        record["spanId"] = f"{line.step:016x}"
    return record


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Any) -> dict[str, Any]:
    """One AnyValue."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, (list, tuple)):
        return {"arrayValue": {"values": [_value(each) for each in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": _attributes(value)}}
    return {"stringValue": "" if value is None else str(value)}
