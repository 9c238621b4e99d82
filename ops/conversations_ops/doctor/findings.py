"""What a check is, and what it finds."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from conversations_ops.doctor.facts import Facts


class Severity(StrEnum):
    """How bad a finding is."""

    FATAL = "fatal"
    """Exactly-once, order or bytes can be lost, or something cannot work at all."""
    WARNING = "warning"
    """It will hurt, and nothing is lost that was acknowledged."""
    NOTE = "note"
    """Worth knowing. Nobody must act."""


_RANK = {Severity.FATAL: 0, Severity.WARNING: 1, Severity.NOTE: 2}


class Hit(NamedTuple):
    """One place at which a check found something."""

    place: str
    """A broker, a topic, a service, a file, or a setting."""
    found: str
    needed: str
    words: Mapping[str, str] = {}
    """Words for the fix of the check, by their names in braces."""
    fix: str = ""
    """A fix for this place, instead of the fix of the check."""


@dataclass(frozen=True)
class Check:
    """One rule."""

    name: str
    """The same word in every output, for programs."""
    severity: Severity
    why: str
    """What happens otherwise."""
    fix: str
    """A command, or what to set, with words in braces for what is found. ``{bootstrap}``, ``{namespace}``, ``{place}`` and ``{targets}`` are always known."""
    look: Callable[[Facts], Iterable[Hit]] = field(compare=False)


class Finding(NamedTuple):
    """A check, and what it found at one place."""

    check: Check
    place: str
    found: str
    needed: str
    fix: str

    @property
    def line(self) -> str:
        """The finding in one sentence, without its fix."""
        return f"{self.check.name}: {self.place}: {self.found}; needed: {self.needed}. {self.check.why}"


def run(checks: Iterable[Check], facts: Facts) -> list[Finding]:
    """Return what the checks find, the worst first."""
    found = [_finding(check, hit, facts) for check in checks for hit in check.look(facts)]
    return sorted(found, key=lambda it: _RANK[it.check.severity])


def _finding(check: Check, hit: Hit, facts: Facts) -> Finding:
    targets = " ".join(map(shlex.quote, facts.targets)) or "TARGET..."
    words = {"place": hit.place, "bootstrap": facts.bootstrap, "namespace": facts.namespace.name, **hit.words}
    quoted = {name: shlex.quote(word) for name, word in words.items()}
    return Finding(check, hit.place, hit.found, hit.needed, (hit.fix or check.fix).format(**quoted, targets=targets))


def general(check: Check) -> str:
    """Return the fix of a check with capital words for what is found."""
    return re.sub(r"\{(\w+)\}", lambda found: found[1].upper(), check.fix)


def grouped(findings: Sequence[Finding]) -> dict[tuple[str, str, str, str], list[Finding]]:
    """Return findings that differ only in their place together, in the order of their first ones."""
    found: dict[tuple[str, str, str, str], list[Finding]] = {}
    for it in findings:
        found.setdefault((it.check.name, it.found, it.needed, it.fix), []).append(it)
    return found
