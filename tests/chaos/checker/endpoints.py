"""The endpoints' rows: they must say what the messages imply, and a closed endpoint must be remembered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.chaos.checker.dialogs import Dialog
from tests.chaos.checker.envelopes import Wire
from tests.chaos.checker.verdict import Kind, Verdict

STARTED_OUTBOUND, CONVERSING = 0, 2
AFTER_END = "after-end"
"""Such a letter is of a message that came when its dialog was over."""


class Endpoint:
    """One side of a dialog as its state row must have it."""

    def __init__(self, dialog: Dialog, initiator: bool) -> None:
        begun = dialog.begun
        self.dialog, self.initiator = dialog, initiator
        self.out, self.into = (dialog.there, dialog.back) if initiator else (dialog.back, dialog.there)
        self.service, peer = (begun.initiator, begun.target) if initiator else (begun.target, begun.initiator)
        self.where = f"{dialog.name} at {self.service}"
        self.ended = dialog.ended_by_error or any(sent.kind == "END" for sent in dialog.there.first.values())
        key, peer_key = (begun.key, begun.target_key) if initiator else (begun.target_key, begun.key)
        self.constant = {
            "contract": begun.contract, "peer": peer, "key": key, "peer_key": peer_key,
            "origin": "" if initiator else begun.initiator,
        }  # fmt: skip
        found = [dialog.letters.messages.get((dialog.name, not initiator, number)) for number in self.into.first]
        self.after_end = sum(letter is not None and letter.reason == AFTER_END for letter in found)
        self.returned = sum(name[:2] == (dialog.name, initiator) for name in dialog.letters.returned)
        self.dead_lettered = sum(letter is not None for letter in found) - self.after_end

    def check(self, verdict: Verdict) -> None:
        """Compare the row, or say that it is missing."""
        rows, side = self.dialog.rows, (self.dialog.name, self.initiator)
        self._check_acknowledgements(verdict)
        tombstone, row = rows.tombstones.get(side), rows.endpoints.get(side)
        if tombstone is not None:
            if not self.ended and not self.dialog.there.errors and not self.dialog.back.errors:
                verdict.add(Kind.UNPLANNED_END, self.where, "it has a tombstone, and there was no end")
            self._compare(tombstone, self._closed(), verdict)
            self._check_late(tombstone, verdict)
            if rows.sent[side]:
                verdict.add(Kind.WAITING_LEFT, self.where, f"it is closed, and keeps {rows.sent[side]}")
        elif self.ended:
            if row is not None or not self.dialog.forgotten(self.initiator):
                what = f"its row is in state {row['state']}" if row is not None else "it has no row"
                verdict.add(Kind.TOMBSTONE_MISSING, self.where, f"the dialog has ended; {what}")
        elif row is None:
            if self.initiator or self.into.first:
                verdict.add(Kind.ENDPOINT_MISSING, self.where, f"{len(self.into.first)} messages have come in")
        else:
            self._compare(row, self._open(), verdict)
            self._check_limits(row, verdict)
            self._check_sent(row, verdict)

    def _check_late(self, tombstone: Mapping[str, Any], verdict: Verdict) -> None:
        """What comes after an error is counted in the step that ended the dialog, and no more once it is closed."""
        if not self.out.highest_ack <= tombstone["accepted"] <= _last(self.into):
            what = f"accepted {tombstone['accepted']}, it acknowledged {self.out.highest_ack} of {_last(self.into)}"
            verdict.add(Kind.ENDPOINT_ROW, self.where, what)
        counted = tombstone["dead_lettered"] - self.dead_lettered
        if not 0 <= tombstone["discarded"] <= counted <= self.after_end:
            what = f"dead_lettered {tombstone['dead_lettered']}, discarded {tombstone['discarded']}"
            verdict.add(
                Kind.ENDPOINT_ROW,
                self.where,
                f"{what}; {self.dead_lettered} letters, {self.after_end} of after the end",
            )

    def _check_limits(self, row: Mapping[str, Any], verdict: Verdict) -> None:
        """What may lag behind, and may not run ahead."""
        wake = int.from_bytes(row["wake"], "big")
        if row["told"] >= row["next_in"]:
            verdict.add(Kind.ENDPOINT_ROW, self.where, f"told {row['told']}, next_in {row['next_in']}")
        if wake > row["expires_at"] >= 0:
            verdict.add(Kind.ENDPOINT_ROW, self.where, f"wakes at {wake}, its lifetime is over at {row['expires_at']}")

    def _check_sent(self, row: Mapping[str, Any], verdict: Verdict) -> None:
        """What is not acknowledged is kept by its sender, if it is the initiator; and nothing else is."""
        name, runs = self.dialog.name, self.dialog.rows.sent[self.dialog.name, self.initiator]
        wanted = set(range(row["acked"] + 1, row["next_out"])) if row["resends"] else set[int]()
        delayed = {number for number in wanted if (name, self.initiator, number) in self.dialog.rows.waiting}
        if missing := wanted - delayed - {number for run in runs for number in run}:
            verdict.add(
                Kind.ENDPOINT_ROW, self.where, f"it does not keep {sorted(missing)}, which are not acknowledged"
            )
        if over := [run for run in runs if run[-1] <= row["acked"]]:
            verdict.add(Kind.WAITING_LEFT, self.where, f"it keeps {over}, and {row['acked']} is acknowledged")

    def _check_acknowledgements(self, verdict: Verdict) -> None:
        if self.out.highest_ack > _last(self.into):
            what = f"ack {self.out.highest_ack}, the peer's last number is {_last(self.into)}"
            verdict.add(Kind.ACKNOWLEDGED_UNSENT, self.where, what)

    def _closed(self) -> dict[str, object]:
        if self.dialog.ended_by_error and self.dialog.fate is not None:
            return {
                "key": self.constant["key"], "origin": self.constant["origin"], "transmitted": _last(self.out),
                "code": self.dialog.fate.code if self.initiator else 0, "missing": [], "returned": self.returned,
                "replaced_by": b"",
            }  # fmt: skip
        return {
            "key": self.constant["key"], "origin": self.constant["origin"], "accepted": _last(self.into),
            "transmitted": _last(self.out), "dead_lettered": self.dead_lettered, "discarded": 0, "code": 0, "missing": [],
            "returned": 0, "replaced_by": b"",
        }  # fmt: skip

    def _open(self) -> dict[str, object]:
        silent = self.initiator and not self.out.first
        return {
            **self.constant, "state": STARTED_OUTBOUND if silent else CONVERSING, "next_in": _last(self.into) + 1,
            "next_out": _last(self.out) + 1, "acked": self.into.highest_ack, "end_seq": -1, "held": 0,
            "dead_lettered": self.dead_lettered, "discarded": 0, "code": 0, "missing": [], "resends": self.initiator,
            "fence": 0, "renews": False, "generation": 0, "first_conversation": b"", "first_number": 0,
            **({} if silent else {"expires_at": self.dialog.there.expires_at}),
        }  # fmt: skip

    def _compare(self, row: Mapping[str, Any], implied: Mapping[str, object], verdict: Verdict) -> None:
        lies = [f"{name} {row[name]!r}, not {value!r}" for name, value in implied.items() if row[name] != value]
        if lies:
            verdict.add(Kind.ENDPOINT_ROW, self.where, "; ".join(lies))


def _last(wire: Wire) -> int:
    return max(wire.first, default=-1)
