"""Charts as paths in a square of 100 by 100, which the page stretches. Numbers and times stand beside them as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from conversations_ops.read_model.minutes import MINUTE, Slot

SIZE = 100
MANY = 1_000


class Line(NamedTuple):
    """One line of a chart."""

    name: str
    look: str
    """``one`` to ``four``: a colour and a dash pattern of the style sheet."""
    path: str
    """The ``d`` of an SVG path. It has a gap where a value is not known."""
    last: str
    """The newest known value; empty if there is none."""


class Chart(NamedTuple):
    """A chart."""

    title: str
    lines: Sequence[Line]
    top: str
    """The value at the upper edge. The lower edge is 0."""
    begin: str
    end: str

    @property
    def is_empty(self) -> bool:
        """True if no value is known."""
        return not any(it.path for it in self.lines)


def seconds(value: float) -> str:
    """Write a number of seconds for people: ``850 ms``, ``2.5 s``, ``3.2 min``."""
    if value < 1:
        return f"{value * 1_000:.3g} ms"
    return f"{value:.3g} s" if value < 2 * MINUTE else f"{value / MINUTE:.3g} min"


def short_number(value: float) -> str:
    """Write a number with three digits and a unit: ``12``, ``0.5``, ``1.2k``, ``3.4M``."""
    for unit in ("", "k", "M"):
        if abs(value) < MANY:
            return f"{value:.3g}{unit}"
        value /= MANY
    return f"{value:.3g}G"


class Drawn(NamedTuple):
    """What a chart draws."""

    title: str
    columns: Sequence[tuple[str, str]]
    """A column of ``read_model.minutes`` and the name of its line."""
    per_minute: bool = False
    """True for counts, which are divided by the minutes of a slot."""
    write: Callable[[float], str] = short_number


CHARTS = (
    Drawn("Dialogs per minute", (("begun", "begun"), ("ended", "ended"), ("errored", "errored"), ("expired", "expired")), True),
    Drawn("Time to the first reply", (("reply_p50", "half"), ("reply_p95", "95 %"), ("reply_p99", "99 %")), write=seconds),
    Drawn("Time to the end of a dialog", (("end_p50", "half"), ("end_p95", "95 %"), ("end_p99", "99 %")), write=seconds),
    Drawn("Open dialogs and unread messages", (("open", "open dialogs"), ("backlog", "unread messages"))),
)  # fmt: skip
LOOKS = ("one", "two", "three", "four")


def charts(found: Sequence[Slot], size: int) -> list[Chart]:
    """Draw the metrics of slots of ``size`` seconds."""
    return [_chart(it, found, size) for it in CHARTS]


def _chart(drawn: Drawn, found: Sequence[Slot], size: int) -> Chart:
    divisor = size / MINUTE if drawn.per_minute else 1
    values = [[_divided(slot.values[column], divisor) for slot in found] for column, _ in drawn.columns]
    top = _round_up(max((it for line in values for it in line if it is not None), default=0.0))
    lines = [
        Line(name, look, _path(line, top), next((drawn.write(it) for it in reversed(line) if it is not None), ""))
        for (_, name), look, line in zip(drawn.columns, LOOKS, values, strict=False)
    ]
    return Chart(drawn.title, lines, drawn.write(top), _time(found[0].begin), _time(found[-1].begin + size))


def _divided(value: float | None, divisor: float) -> float | None:
    return None if value is None or not math.isfinite(value) or value < 0 else value / divisor


def _round_up(value: float) -> float:
    """Return the next number that begins with 1, 2 or 5, so that the edge of a chart is a round one."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(it * power for it in (1, 2, 5, 10) if it * power >= value or it == SIZE // 10)


def _path(values: Sequence[float | None], top: float) -> str:
    step, parts, pen = SIZE / max(len(values) - 1, 1), [], "M"
    for at, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        x, y = at * step, SIZE - SIZE * value / top
        lone = pen == "M" and (at + 1 == len(values) or values[at + 1] is None)
        parts.append(f"{pen}{x:.2f} {y:.2f}" + ("h0.5" if lone else ""))
        pen = "L"
    return "".join(parts)


def _time(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%d %b %H:%M")
