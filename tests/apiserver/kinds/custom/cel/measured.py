"""Answers of Kubernetes' own code for expressions over one schema.

`measured.json` has the schema, a value and its former state; each rule with the greatest estimated
cost, the cost of its run on the value, and what it came to; and the rules that it refuses.
"""

import json
from pathlib import Path

from controlplane.apiserver.kinds.custom.cel import compiled
from controlplane.apiserver.kinds.custom.cel.declared import declared
from controlplane.apiserver.kinds.custom.cel.values import seen

MEASURED = json.loads(Path(__file__).with_name("measured.json").read_text(encoding="utf-8"))
SCHEMA = MEASURED["schema"]
DECLARED = declared(SCHEMA)


def program(source):
    return compiled(source, {"self": DECLARED.type, "oldSelf": DECLARED.type})


def variables():
    return {"self": seen(MEASURED["value"], SCHEMA), "oldSelf": seen(MEASURED["former"], SCHEMA)}
