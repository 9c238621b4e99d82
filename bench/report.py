"""The figures for people: a table for the terminal, and the same in Markdown for docs/performance.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.contenders import ROOT
from bench.picture import draw
from bench.results import Results

PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- figures: written by `make bench` -->", "<!-- end of figures -->"
HEADINGS = ("contender", "messages/s", "us/message", "CPU us/message", "to the bare loop", "to Quix Streams")


def rows(results: Results) -> Iterator[tuple[str, ...]]:
    """Name and cells of each contender, the fastest first."""
    contenders = results["contenders"]
    for name in sorted(contenders, key=lambda each: -contenders[each]["median_messages_per_second"]):
        it = contenders[name]
        ratios = [_ratio(results, name, base) for base in ("raw", "quix")]
        yield (
            name, it["label"], f"{it['median_messages_per_second']:,}", f"{it['median_us_per_message']:.1f}",
            f"{it['median_cpu_us_per_message']:.1f}", *ratios,
        )  # fmt: skip


def _ratio(results: Results, name: str, base: str) -> str:
    if name == base:
        return "1"
    ratio = results["ratios"].get(f"{name}/{base}")
    if ratio is None:
        return ""
    low, high = results["ratio_ranges"][f"{name}/{base}"]
    return f"{ratio:.2f} ({low:.2f}-{high:.2f})"


def conditions(results: Results) -> str:
    """Say in a line or two what was measured on what."""
    load, machine, versions = results["workload"], results["machine"], results["versions"]
    return (
        f"{load['messages']:,} messages of {load['body_bytes']} bytes on {load['dialogs']:,} dialogs, "
        f"{load['partitions']} partitions, a reply to each, {load['batch']:,} to a transaction; medians of "
        f"{results['rounds']} rounds. {machine['cores']} cores shared "
        f"with the broker, Python {machine['python']}, Kafka {machine['kafka'].split(',')[0]}, confluent-kafka "
        f"{versions['confluent-kafka']}."
    )


def show(results: Results, console: Console) -> None:
    """Print the table."""
    table = Table("contender", "msg/s", "us/msg", "CPU us", "/ raw", "/ quix")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, _label, *cells in rows(results):
        table.add_row(name, *(cell.split(" ")[0] for cell in cells))
    if results["contenders"]:
        console.print(table)
        console.print(conditions(results))
    for name, late in results["late"].items():
        console.print(
            f"{name}: {late:.0%} of the messages were not handled in the step that read them", highlight=False
        )
    if results["disturbed"]:
        console.print("Other programs used the processors meanwhile: do not trust these figures.", style="yellow")
    for name, why in results["not_measured"].items():
        console.print(f"not measured: {name}: {why}", markup=False)


def markdown(results: Results) -> str:
    """The table and the single operations for the documentation."""
    lines = [
        _line(HEADINGS),
        _line(("---", *["---:"] * (len(HEADINGS) - 1))),
        *(_line(row[1:]) for row in rows(results)),
    ]
    lines += ["", f"{conditions(results)} In brackets: the lowest and highest ratio of a round.", ""]
    lines += [f"Not measured: {name}: {why}" for name, why in results["not_measured"].items()]
    lines += ["| single operation | us |", "|---|---:|"]
    lines += [f"| {name} | {microseconds:.2f} |" for name, microseconds in results["micro_us"].items()]
    return "\n".join(lines)


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def keep(results: Results, directory: Path) -> list[Path]:
    """Write results.json and results.png into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    figures, picture = directory / "results.json", directory / "results.png"
    figures.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    draw(results, picture)
    return [figures, picture]


def publish(results: Results) -> Path:
    """Put the table into the documentation, between its two marks."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{markdown(results)}\n\n{END}{after}", encoding="utf-8")
    return PAGE
