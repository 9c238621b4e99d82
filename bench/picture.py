"""Draws the figures: a bar per contender, a dot per run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

COLOURS = {"raw": "#9aa5b1", "quix": "#d08c60"}
OURS, OURS_LIGHT = "#2f6f9f", "#8db8d6"


def draw(results: dict[str, Any], path: Path) -> None:
    """Write a PNG of messages per second, the fastest on top."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter

    contenders = results["contenders"]
    names = sorted(contenders, key=lambda name: contenders[name]["median_messages_per_second"])
    figure, axes = plt.subplots(figsize=(10.5, 1.6 + 0.62 * len(names)), dpi=150, layout="constrained")
    for height, name in enumerate(names):
        _bar(axes, height, name, results)
    axes.set_yticks(range(len(names)), [contenders[name]["label"] for name in names], fontsize=11)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlim(0, 1.30 * max(_highest(contenders[name]) for name in names))
    axes.set_xlabel(_caption(results), fontsize=9, color="#52606d", labelpad=10, loc="left")
    axes.set_title("Messages per second, exactly once, one Python process", loc="left", fontsize=13, fontweight="bold")
    axes.grid(axis="x", color="#e4e7eb")
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(path)
    plt.close(figure)


def _bar(axes: Any, height: int, name: str, results: dict[str, Any]) -> None:
    it = results["contenders"][name]
    colour = COLOURS.get(name) or (OURS_LIGHT if name.endswith("pydantic") else OURS)
    axes.barh(height, it["median_messages_per_second"], height=0.62, color=colour)
    dots = [sample["messages_per_second"] for sample in it["samples"]]
    axes.scatter(dots, [height] * len(dots), s=22, color="#1f2933", edgecolor="white", linewidth=0.7, zorder=3)
    ratio = results["ratios"].get(f"{name}/raw")
    label = f"{it['median_messages_per_second']:,}" + (f"  =  {ratio:.2f} × bare loop" if ratio else "")
    axes.annotate(
        label,
        (_highest(it), height),
        xytext=(9, 0),
        textcoords="offset points",
        va="center",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        fontsize=10.5,
        color="#1f2933",
    )


def _highest(it: dict[str, Any]) -> float:
    speeds = [sample["messages_per_second"] for sample in it["samples"]]
    return float(max([it["median_messages_per_second"], *speeds]))


def _caption(results: dict[str, Any]) -> str:
    load, machine = results["workload"], results["machine"]
    return (
        f"bars: medians, dots: single runs · {load['messages']:,} messages of {load['body_bytes']} B on {load['dialogs']:,} "
        f"dialogs, a reply to each, {load['batch']:,} per transaction\n{machine['cores']} cores shared with the broker · "
        f"Python {machine['python']} · Kafka {machine['kafka'].split(',')[0]}"
    )
