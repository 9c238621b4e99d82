"""An event loop for tests and simulations, on which waiting takes no real time."""

from __future__ import annotations

import asyncio
from typing import Any


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        selector = self._selector  # type: ignore[attr-defined]  # asyncio has no public way to its selector
        select = selector.select

        def jump(timeout: float | None = None) -> Any:
            if timeout:
                self._now += timeout
            return select(0)

        selector.select = jump

    def time(self) -> float:
        """Return the seconds of the loop's virtual clock."""
        return self._now
