"""Draws bars with a dot for each run, and lines, all in one style."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

OURS, OURS_LIGHT = "#2f6f9f", "#8db8d6"
RAW, QUIX, STREAMS = "#9aa5b1", "#d08c60", "#7d9b6a"
DARK, GRID = "#1f2933", "#e4e7eb"


@dataclass(frozen=True)
class Bar:
    """A bar: a median, the values of the single runs, and a note beside it."""

    label: str
    median: float
    runs: Sequence[float]
    colour: str
    note: str = ""


def colour_of(contender: str) -> str:
    """Return the colour of a contender, the same in every picture."""
    for prefix, colour in (("raw", RAW), ("quix", QUIX), ("streams", STREAMS)):
        if contender.startswith(prefix):
            return colour
    return OURS_LIGHT if "pydantic" in contender else OURS


def horizontal(axes: Any, bars: Sequence[Bar], title: str) -> None:
    """Draw horizontal bars, the first at the bottom."""
    for height, bar in enumerate(bars):
        axes.barh(height, bar.median, height=0.62, color=bar.colour)
        axes.scatter(bar.runs, [height] * len(bar.runs), s=22, color=DARK, edgecolor="white", linewidth=0.7, zorder=3)
        axes.annotate(
            f"{bar.median:,.0f}{bar.note}", (max([bar.median, *bar.runs]), height), xytext=(9, 0),
            textcoords="offset points", va="center", fontsize=10.5, color=DARK,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )  # fmt: skip
    axes.set_yticks(range(len(bars)), [bar.label for bar in bars], fontsize=10.5)
    if bars:
        axes.set_xlim(0, 1.35 * max(max([bar.median, *bar.runs]) for bar in bars))
    axes.tick_params(axis="y", length=0)
    style(axes, title)
    axes.xaxis.set_major_formatter(_thousands())
    axes.grid(axis="x", color=GRID)
    axes.spines["left"].set_visible(False)


def style(axes: Any, title: str) -> None:
    """Set the title and the style that all pictures share."""
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def curves(axes: Any, lines: Sequence[tuple[str, str, Sequence[float], Sequence[float]]], title: str) -> None:
    """Draw lines of (label, colour, x, y). The x axis is logarithmic, and labelled with the x values of the lines."""
    for label, colour, xs, ys in lines:
        axes.plot(xs, ys, marker="o", color=colour, label=label, linewidth=2)
    axes.set_xscale("log")
    ticks = sorted({x for _, _, xs, _ in lines for x in xs})
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(_thousands())
    axes.grid(axis="y", color=GRID)
    axes.legend(frameon=False, fontsize=10)
    style(axes, title)


def distributions(axes: Any, lines: Sequence[tuple[str, str, Sequence[float]]], title: str) -> None:
    """Draw for each (label, colour, curve in milliseconds) the share of requests that took at most a given time."""
    for label, colour, curve in lines:
        shares = [100 * (at + 1) / len(curve) for at in range(len(curve))]
        axes.plot(curve, shares, color=colour, label=label, linewidth=2)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(_thousands())
    axes.xaxis.set_minor_formatter(_thousands(first=(2, 3, 5)))  # the default writes 2x10^1
    axes.set_ylim(0, 100)
    axes.set_xlabel("milliseconds", fontsize=10)
    axes.set_ylabel("% of the requests", fontsize=10)
    axes.grid(which="both", color=GRID)
    axes.legend(frameon=False, fontsize=10, loc="lower right")
    style(axes, title)


def _thousands(first: Collection[int] = range(10)) -> Any:
    """Return a formatter that writes plain numbers, if their first digit is in ``first``."""
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: f"{value:,.0f}" if int(f"{value:e}"[0]) in first else "")
