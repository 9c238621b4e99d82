"""Tells why no dialog waits for a dead letter."""

from __future__ import annotations

from collections.abc import Mapping

from conversations.protocol import letters

WHY: Mapping[str, str] = {
    letters.HANDLER_FAILED: "its handler failed, and its policy did not hold it",
    letters.UNFIT: "it does not fit the release that received it, and its policy did not hold it",
    letters.AFTER_END: "it arrived after this side of its dialog had ended",
    letters.HELD_AT_END: "an earlier message was missing when its dialog ended",
    letters.PARKED_AT_END: "it waited in its dialog when the dialog ended",
    letters.SKIPPED: "an operator skipped it",
    letters.EDITED: "an operator replaced its body; this is the old body",
    letters.BREACH: "it broke the contract, and so its dialog",
    letters.REFUSED: "it could not begin a dialog",
    letters.COMMAND_REFUSED: "the command was refused as a whole",
    letters.SET_ASIDE: "the record is not valid or not credible",
    letters.UNDELIVERABLE: "the peer has not accepted it: its dialog was over before, or the topic of the peer refuses it",
}
"""Why no dialog waits for a letter, by the reason of the letter."""
