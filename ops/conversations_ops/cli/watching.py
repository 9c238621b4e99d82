"""Follows one redrive until it ends, and prints a line for each change."""

from __future__ import annotations

import sys
import time

from conversations.config import Kafka
from conversations.errors import DeclarationError
from conversations_ops.cli.catching_up import read_model
from conversations_ops.cli.one_redrive import ended, outcomes_in_words
from conversations_ops.cli.output import show
from conversations_ops.operate.redrive.known import State
from conversations_ops.printable import one_line
from conversations_ops.read_model.redrives import redrive


def follow(kafka: Kafka, name: str, *, as_json: bool) -> None:
    """Print the progress of a redrive until it ends, or once as JSON.

    Raises:
        DeclarationError: there is no such redrive.
        LogError: Kafka or the file of the read model cannot be read.
    """
    shown = ""
    while True:
        with read_model(kafka) as file:
            it = redrive(file, name)
        if it is None:
            raise DeclarationError(f"there is no redrive {name!r} in namespace {kafka.namespace!r}")
        state = it.end or it.state(time.time_ns() // 1_000).value
        text = outcomes_in_words(it.outcomes) + one_line(ended(it) or ("" if state == State.RUNS else f"; {state}"))
        data = {
            "redrive": name, "by": it.by, "outcomes": dict(it.outcomes), "end": it.end, "state": state, "ended_by": it.ended_by,
            "ended_why": it.ended_why,
        }  # fmt: skip
        if text != shown:
            show(data, text, as_json=as_json)
            sys.stdout.flush()  # who reads the pipe sees each change at once
            shown = text
        if it.end is not None or not it.started or as_json:
            return
        time.sleep(1)  # the display changes at most once a second
