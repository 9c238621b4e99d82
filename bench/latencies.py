"""Times of single requests: when each was due, and how long it took from then to the answer."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

PERCENTILES = (50, 90, 99)
LATE = 0.005
"""A request that is sent more than this many seconds after its due time counts as late: the generator itself was held up."""


def percentile(seconds: Sequence[float], percent: float) -> float:
    """Return the percentile by nearest rank: at least ``percent`` percent of the values are not larger than the returned value."""
    ordered = sorted(seconds)
    rank = math.ceil(round(percent * len(ordered) / 100, 6))  # 5.5 % of 400 is 22, not a little more
    return ordered[max(0, rank - 1)]


def summary(seconds: Sequence[float]) -> dict[str, Any]:
    """Return the count, and the percentiles and the maximum in milliseconds."""
    if not seconds:
        return {"count": 0}
    found = {f"p{percent}_ms": round(1e3 * percentile(seconds, percent), 2) for percent in PERCENTILES}
    return {"count": len(seconds), **found, "max_ms": round(1e3 * max(seconds), 2)}


def curve(seconds: Sequence[float]) -> list[float]:
    """Return the percentiles in steps of half a percent, in milliseconds. A picture draws them as a distribution."""
    return [round(1e3 * percentile(seconds, at / 2), 2) for at in range(1, 201)] if seconds else []


async def open_loop(rate: float, count: int, send: Callable[[int, float], Awaitable[None]]) -> dict[str, Any]:
    """Begin each ``send(number, due)`` when it is due, even if earlier calls have not ended. Then wait for all.

    ``due`` is the ``time.perf_counter`` at which the request should begin. Times are measured from ``due``. So if the
    system stalls, the wait of all requests that were due meanwhile counts too.
    """
    begin = time.perf_counter() + 0.05
    late = 0
    tasks: list[asyncio.Future[None]] = []
    for number in range(count):
        due = begin + number / rate
        if (ahead := due - time.perf_counter()) > 0:
            await asyncio.sleep(ahead)
        late += time.perf_counter() - due > LATE
        tasks.append(asyncio.ensure_future(send(number, due)))
    await asyncio.gather(*tasks)
    return {"late": late, "seconds": round(time.perf_counter() - begin, 3)}
