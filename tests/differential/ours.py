"""Our API server inside this process: a fresh one for every conversation, in virtual time."""

from __future__ import annotations

import json
import threading
from typing import Any, Final

from tests.differential.asking import comparable
from tests.differential.corpus import NAMESPACE, Conversation
from tests.golden.answer_crud import Replay

Json = Any

_NAME: Final = "q00000001"


_ONE_AT_A_TIME: Final = threading.Lock()
"""Our servers of one process share caches, and are no threads' business."""


class InProcess:
    """Asks our API server without connections; see `tests.golden.answer_crud`."""

    def ask(self, told: Conversation) -> Json:
        """Ask everything of a fresh server, and return the masked answers."""
        case = {
            "setup": list(told.setup),
            "requests": list(told.steps),
            "managedFields": told.managed,
        }
        text = json.dumps(case, ensure_ascii=False).replace(NAMESPACE, _NAME)
        with _ONE_AT_A_TIME:
            found = Replay(json.loads(text)).run()
        shown: Json = json.loads(json.dumps(found, ensure_ascii=False).replace(_NAME, NAMESPACE))
        return {**comparable(shown), "values": found["values"]}
