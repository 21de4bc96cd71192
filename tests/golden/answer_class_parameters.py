"""Parameters of snapshot classes: the secrets that they name, and what the driver is told of them."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.storage.snapshot import parameters as rules


def answer(case: Any) -> Any:
    given, about = case["parameters"], case["object"]
    snapshot = None if about is None else (about["namespace"], about["name"])
    found: dict[str, Any] = {}
    for secret in rules.SECRETS:
        key = secret.title[0].lower() + secret.title[1:]
        try:
            reference = rules.secret_reference(secret, given, case["contentName"], snapshot)
            found[key] = {"ref": None if reference is None else reference._asdict()}
        except rules.ParameterError as error:
            found[key] = {"error": str(error)}
    try:
        found["driverParameters"] = {"parameters": rules.driver_parameters(given)}
    except rules.ParameterError as error:
        found["driverParameters"] = {"error": str(error)}
    return found
