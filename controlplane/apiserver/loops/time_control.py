"""Control over time through the served address: pause, resume, step, speed.

`GET /controlplane/time` tells the state; `POST` with `{"action": "pause" | "resume"}`,
`{"action": "step", "seconds": 30}` or `{"action": "speed", "speed": 10}` (or "max") changes it and
answers the new one. A step is answered when it is done. None of this enters the world: what follows
from it is recorded as the times of the input that does.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

import trio

from controlplane.apiserver.schema.status import ApiError, bad_request

if TYPE_CHECKING:
    from actors.pace import Pacer

__all__ = ["PATH", "control", "state"]

PATH: Final = "/controlplane/time"
NS = 1_000_000_000
LONGEST_STEP_S: Final = 100 * 365 * 86_400.0


def state(pace: Pacer) -> dict[str, Any]:
    """Return the pace of time: `virtual` seconds since the start, `speed` (a number or "max"), `paused`."""
    speed: float | str = "max" if math.isinf(pace.speed) else pace.speed
    return {"virtual": pace.now() / NS, "speed": speed, "paused": pace.paused}


async def control(pace: Pacer, method: str, body: bytes) -> dict[str, Any]:
    """Answer one request. ApiError 400, 405."""
    if method == "GET":
        return state(pace)
    if method != "POST":
        raise ApiError(405, "MethodNotAllowed", f"{PATH} knows GET and POST, not {method}")
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        raise bad_request("the body is not JSON") from None
    action = asked.get("action") if isinstance(asked, dict) else None
    if action == "pause":
        pace.pause()
    elif action == "resume":
        pace.resume()
    elif action == "speed":
        wanted = asked.get("speed")
        pace.set_speed(math.inf if wanted == "max" else _number("speed", wanted, 1e-9, 1e9))
    elif action == "step":
        arrived = trio.Event()
        seconds = _number("seconds", asked.get("seconds"), 0, LONGEST_STEP_S)
        pace.step(round(seconds * NS), arrived.set)
        await arrived.wait()
    else:
        raise bad_request(f"action {action!r}: expected pause, resume, step or speed")
    return state(pace)


def _number(name: str, value: object, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise bad_request(f"{name} {value!r}: expected a number between {low:g} and {high:g}")
    return float(value)
