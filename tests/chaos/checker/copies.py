"""What Spark made of the queues, against the queues: every message of every dialog once, with its bytes, and nothing else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.chaos.checker.envelopes import Envelopes
from tests.chaos.checker.verdict import Kind, Verdict

COLUMNS = ["conversation_id", "to_target", "sequence", "kind", "content"]
SHOWN = 5


class Unreadable(Exception):
    """The directory is not what Spark writes."""


class Message(NamedTuple):
    """One message of a dialog, as a reader knows it."""

    conversation: str
    to_target: bool
    number: int
    kind: str
    body: bytes


def archived(directory: Path) -> list[Message]:
    """Read an archive: what its newest commit names, and no other file.

    Raises:
        Unreadable: it is none.
    """
    commits = sorted((directory / "commits").glob("*.json"))
    if not commits:
        raise Unreadable(f"{directory} has no commit")
    parts = json.loads(commits[-1].read_text(encoding="utf-8"))["parts"]
    folders = [
        f"data/set_aside=false/of={part['service']}/day={part['day']}/batch={part['batch']}"
        for part in parts
        if not part["set_aside"]
    ]
    return [message for folder in folders for message in _messages(directory / folder)]


def streamed(directory: Path) -> list[Message]:
    """Read what a stream wrote, a folder for each batch."""
    return [message for folder in sorted(directory.glob("batch-*")) for message in _messages(folder)]


def _messages(folder: Path) -> Iterator[Message]:
    from pyarrow import parquet

    for file in sorted(folder.glob("*.parquet")):
        table: Any = parquet.ParquetFile(file).read(columns=COLUMNS)
        for conversation, to_target, number, kind, body in zip(
            *(table[name].to_pylist() for name in COLUMNS), strict=True
        ):
            yield Message(conversation, to_target, -1 if number is None else number, kind, body or b"")


def check_copy(what: str, there: list[Message], envelopes: Envelopes, verdict: Verdict) -> None:
    """Compare what one reader has with what is on the wire."""
    said = {
        Message(conversation, to_target, number, sent.kind, sent.body)
        for (conversation, to_target), wire in envelopes.wires.items()
        for number, sent in wire.first.items()
    }
    found = Counter(message for message in there if message.number >= 0)
    for kind, wrong in (
        (Kind.COPY_LACKS, said - found.keys()),
        (Kind.COPY_INVENTS, found.keys() - said),
        (Kind.COPY_TWICE, {message for message, times in found.items() if times > 1}),
    ):
        if wrong:
            shown = ", ".join(
                f"{m.conversation} {'to' if m.to_target else 'from'} the target {m.number}"
                for m in sorted(wrong)[:SHOWN]
            )
            verdict.add(kind, what, f"{len(wrong)} messages, as {shown}")
    verdict.figures[f"in the {what}"] = found.total()
