"""Handlers that wait 5 ms before they answer, through our public API: ``python -m bench.contenders.waiting_loop JOB``.

The contender ``def`` has a ``def`` handler that sleeps. The contender ``async`` has an ``async def`` handler that awaits.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from bench.contenders import our_loop
from bench.contenders.our_loop import ANSWERING, OPAQUE, OPAQUE_ORDER
from bench.workload import Job
from conversations import Dialog, Service

WAIT = 0.005


def waiting_service() -> Service[Any]:
    """Return a service whose handler waits in its thread."""
    service = Service(ANSWERING, accepts=[OPAQUE])

    @service.on(OPAQUE_ORDER)
    def answer(body: bytes, dialog: Dialog[Any]) -> None:
        time.sleep(WAIT)
        dialog.send(body)

    return service


def awaiting_service() -> Service[Any]:
    """Return a service whose handler waits on the event loop."""
    service = Service(ANSWERING, accepts=[OPAQUE])

    @service.on(OPAQUE_ORDER)
    async def answer(body: bytes, dialog: Dialog[Any]) -> None:
        await asyncio.sleep(WAIT)
        dialog.send(body)

    return service


if __name__ == "__main__":
    told = Job.from_json(sys.argv[1])
    our_loop.run(told, awaiting_service() if told.contender.startswith("async") else waiting_service())
