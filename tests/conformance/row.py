"""One row of the table: a behaviour of Service Broker, what is done here, how the two compare, and the tests that prove it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from conversations.protocol.code_table import TABLE
from conversations.protocol.codes import ApplicationCode, Code, LocalCode


class Verdict(StrEnum):
    """How a behaviour of this product compares with Service Broker's."""

    SAME = "same"
    BETTER = "better"
    """It does what Service Broker does, without a known defect of it, or with more."""
    DIFFERENT = "different"
    """It serves the same purpose in another way. The reason says why."""
    ABSENT = "absent"
    """It is not built. The reason says what would bring it, or why it never comes."""


NEEDS_REASON = frozenset({Verdict.DIFFERENT, Verdict.ABSENT})


@dataclass(frozen=True, slots=True)
class Row:
    """One behaviour."""

    id: str
    """Stable name: the chapter, the thing and the behaviour, with dots between them."""
    theirs: str
    """Service Broker's behaviour, in one sentence."""
    ours: str
    """The behaviour here, in one sentence."""
    verdict: Verdict
    proof: tuple[str, ...] = ()
    """Node ids of tests, without parameters. A row needs one, unless it is absent."""
    reason: str = ""
    code: int | None = None
    """Number of a row in the table of codes, with its sign; None for other behaviours."""

    def plain(self) -> dict[str, object]:
        """Return the row as JSON has it."""
        return {
            "id": self.id,
            "code": self.code,
            "service_broker": self.theirs,
            "here": self.ours,
            "verdict": str(self.verdict),
            "reason": self.reason,
            "proof": list(self.proof),
        }


@dataclass(frozen=True, slots=True)
class Chapter:
    """The rows about one part of Service Broker."""

    name: str
    title: str
    about: str
    """What a reader must know before the table."""
    rows: tuple[Row, ...]


def same(name: str, theirs: str, ours: str, *proof: str) -> Row:
    """Make the row of a behaviour that is the same."""
    return Row(name, theirs, ours, Verdict.SAME, proof)


def better(name: str, theirs: str, ours: str, *proof: str) -> Row:
    """Make the row of a behaviour that is better here."""
    return Row(name, theirs, ours, Verdict.BETTER, proof)


def different(name: str, theirs: str, ours: str, *proof: str, reason: str) -> Row:
    """Make the row of a behaviour that differs."""
    return Row(name, theirs, ours, Verdict.DIFFERENT, proof, reason)


def absent(name: str, theirs: str, ours: str, *proof: str, reason: str) -> Row:
    """Make the row of a behaviour that is not built."""
    return Row(name, theirs, ours, Verdict.ABSENT, proof, reason)


# -- rows of codes ---------------------------------------------------------------------------------------------------------

_CODES = {row.number: row for row in TABLE}


@dataclass(frozen=True, slots=True)
class Coded:
    """What the table of codes does not say about a code: the verdict and its proof. The rest is joined by the number."""

    number: int
    verdict: Verdict
    proof: tuple[str, ...] = ()
    theirs: str = ""
    """Service Broker's behaviour, where it says more than the text of the code."""
    ours: str = ""
    """The behaviour here; "" if the columns of the table of codes say it."""
    reason: str = ""
    """For an absent code, the table of codes has the reason."""


def same_code(number: int, *proof: str, theirs: str = "", ours: str = "") -> Coded:
    """Note that a code is the same."""
    return Coded(number, Verdict.SAME, proof, theirs, ours)


def better_code(number: int, *proof: str, theirs: str = "", ours: str = "") -> Coded:
    """Note that a code is better here."""
    return Coded(number, Verdict.BETTER, proof, theirs, ours)


def different_code(number: int, *proof: str, reason: str, theirs: str = "", ours: str = "") -> Coded:
    """Note that a code differs."""
    return Coded(number, Verdict.DIFFERENT, proof, theirs, ours, reason)


def replaced_code(number: int, *proof: str) -> Coded:
    """Note that nothing raises a code, because something else serves its purpose. The table of codes says what, and why."""
    return Coded(number, Verdict.DIFFERENT, proof)


def absent_codes(*numbers: int) -> tuple[Coded, ...]:
    """Note that nothing here raises these codes."""
    return tuple(Coded(number, Verdict.ABSENT) for number in numbers)


def join(*parts: Coded | Iterable[Coded]) -> tuple[Row, ...]:
    """Join what is said about codes with the table of codes, in the order of their numbers.

    A number that is in no table becomes a row that says so, and ``check`` finds it.
    """
    return tuple(_joined(it) for it in sorted(_flat(parts), key=lambda said: abs(said.number)))


def _flat(parts: Iterable[Coded | Iterable[Coded]]) -> Iterator[Coded]:
    for part in parts:
        if isinstance(part, Coded):
            yield part
        else:
            yield from part


def _joined(said: Coded) -> Row:
    code = _CODES.get(said.number)
    name = f"codes.{_kind(said.number, code)}.{abs(said.number)}"
    if code is None:
        return Row(
            name,
            "The code is in no table.",
            "The code is in no table.",
            said.verdict,
            said.proof,
            said.reason,
            said.number,
        )
    ours = said.ours or _told(code)
    return Row(name, said.theirs or code.text, ours, said.verdict, said.proof, said.reason or code.absent, said.number)


def _kind(number: int, code: Code | None) -> str:
    if isinstance(code, ApplicationCode):
        return "application"
    return "local" if number > 0 else "system"


def _told(code: Code) -> str:
    if code.absent:
        return "Nothing raises it."
    found = f"`{code.name}`, found by: {code.detected_by}, told to: {code.told}."
    return f"Raised as {found}" if isinstance(code, LocalCode) else f"Sent as {found}"
