"""Shows the figures to people: tables on the terminal, and the same tables with a picture in docs/performance.md."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from bench import machine
from bench.children import ROOT
from bench.part import Found, Part, Sheet

PAGE = ROOT / "docs" / "performance.md"
PICTURES = "pictures"
DISTURBED = "Other programs used the processors meanwhile: do not trust these figures."


def show(part: Part, found: Found, console: Console) -> None:
    """Print the tables."""
    for sheet in part.sheets(found):
        if sheet.rows:
            console.print(f"\n{_aligned(sheet)}", highlight=False, markup=False, soft_wrap=True)
        for note in sheet.notes:
            console.print(note, highlight=False, markup=False)
    if found.get("disturbed"):
        console.print(DISTURBED, style="yellow")
    for name, why in found.get("not_measured", {}).items():
        console.print(f"not measured: {name}: {why}", markup=False)
    for failure in found["failures"]:
        console.print(f"failed: {failure}", markup=False, style="red")


def _aligned(sheet: Sheet) -> str:
    """Return the table in columns. On a terminal that is too narrow, the lines wrap."""
    lines = [sheet.headings, *sheet.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def markdown(part: Part, found: Found, picture: bool) -> str:
    """Return the tables in Markdown, for the documentation."""
    blocks = [f"![{part.title}](../bench/{PICTURES}/{part.name}.png)"] if picture else []
    for sheet in part.sheets(found):
        if sheet.rows:
            blocks += [_table(sheet), *sheet.notes]
    blocks += [f"Not measured: {name}: {why}" for name, why in found.get("not_measured", {}).items()]
    if found.get("disturbed"):
        blocks.append(DISTURBED)
    return "\n\n".join([*blocks, machine.conditions(found)])


def _table(sheet: Sheet) -> str:
    rule = ("---", *["---:"] * (len(sheet.headings) - 1))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (sheet.headings, rule, *sheet.rows))


def draw(part: Part, found: Found, directory: Path) -> Path | None:
    """Draw the part's picture into ``pictures/`` of a directory. Return its path, or None if the part has no picture."""
    if part.draw is None:
        return None
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    path = directory / PICTURES / f"{part.name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = plt.figure(dpi=150, layout="constrained")
    part.draw(found, figure)
    figure.savefig(path)
    plt.close(figure)
    return path


def marks(name: str) -> tuple[str, str]:
    """Return the lines before and after the figures of a part in the documentation."""
    return f"<!-- {name}: written by `make bench` -->", f"<!-- end of {name} -->"


def filled(page: str, name: str, figures: str) -> str:
    """Return a page with the figures of a part between its marks.

    Raises:
        ValueError: the page has no such marks.
    """
    begin, end = marks(name)
    if begin not in page or end not in page.split(begin, 1)[1]:
        raise ValueError(f"there is no place for {name}: no line {begin!r} with {end!r} after it")
    before, rest = page.split(begin, 1)
    return f"{before}{begin}\n\n{figures}\n\n{end}{rest.split(end, 1)[1]}"


def publish(part: Part, found: Found) -> Path:
    """Put the figures of a part into the documentation; return the path of the page."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(filled(text, part.name, markdown(part, found, part.draw is not None)), encoding="utf-8")
    return PAGE
