"""The verdict on a run: what the driver noticed, what the checker finds in the topics, and what the product's own audit does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from conversations.config import Kafka
from tests.chaos.run import Result

TIMEOUT = 1_800.0
"""Seconds the checker may take, and the audit."""


@dataclass
class Proof:
    """What was found."""

    clean: bool
    line: str
    wrong: list[str]
    result: Result
    figures: dict[str, int] = field(default_factory=dict)
    """What the checker counted."""
    audit: dict[str, Any] | None = None
    """What the audit with Spark said, as it says it with ``--json``."""


def prove(kafka: Kafka, records: Path, result: Result, copies: Mapping[str, Path] | None = None) -> Proof:
    """Let the checker read everything, in a process of its own: it shares nothing with what it checks.

    ``copies`` are directories that a reader has filled, by the checker's option that reads them. When one cannot be read, that is
    wrong, and what the services did is judged without them.
    """
    read = [f"--{name}={directory}" for name, directory in (copies or {}).items()]
    command = [
        sys.executable, "-m", "tests.chaos.checker", "--bootstrap", kafka.bootstrap, "--records", str(records), "--json",
    ]  # fmt: skip
    facts, code, trouble = said("the checker", [*command, *read])
    wrong = [*result.wrong, trouble] if trouble else result.wrong
    if facts is None and read:
        facts, code, _ = said("the checker", command)
    if facts is None:
        return Proof(False, "no verdict", wrong, result)
    found = [f"{each['name']}: {each['where']}: {each['what']}" for each in facts["violations"]]
    clean = code == 0 and facts["clean"] and not wrong
    return Proof(clean, facts["line"], [*wrong, *found], result, facts["figures"])


class Audit(NamedTuple):
    """What the delivery audit found."""

    clean: bool
    line: str
    """Its figures; empty if it came to no verdict."""
    wrong: list[str]
    facts: dict[str, Any] | None
    """What it printed with ``--json``; None if it came to no verdict."""


def audit(kafka: Kafka, *clusters: str) -> Audit:
    """Let the delivery audit read everything, also of other clusters, as operators start it: where all is well it must find nothing."""
    where = ["--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace, *(f"--cluster={it}" for it in clusters)]
    facts, code, trouble = said("the audit", [sys.executable, "-m", "spark_jobs.delivery_audit", *where, "--json"])
    if facts is None or "faults" not in facts:
        return Audit(False, "", [trouble or f"the audit failed, code {code}: {facts}"], None)
    totals = facts["totals"]
    line = f"Audit: dialogs {totals['dialogs']:,}, sent {totals['sent']:,}, faults {facts['faults']:,}"
    found = [f"audit: {each['fault']}: {each['conversation_id']}: {each['what']}" for each in facts["listed"]]
    return Audit(code == 0 and facts["faults"] == 0, line, found, facts)


def audited(kafka: Kafka, proof: Proof) -> Proof:
    """Add the audit's verdict to a proof. The audit must have read every dialog that the checker knows."""
    found = audit(kafka)
    if found.facts is None:
        return replace(proof, clean=False, wrong=[*proof.wrong, *found.wrong])
    read, known = found.facts["totals"]["dialogs"], proof.figures["dialogs"]
    few = [] if read == known else [f"audit: it read {read:,} of {known:,} dialogs"]
    clean = proof.clean and found.clean and not few
    line = f"{proof.line}\n{found.line}"
    return replace(proof, clean=clean, line=line, wrong=[*proof.wrong, *few, *found.wrong], audit=found.facts)


def said(who: str, command: list[str]) -> tuple[dict[str, Any] | None, int, str]:
    """Run a command that prints a JSON object; return it, the exit code, and what is wrong where there is none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return None, -1, f"{who} took more than {TIMEOUT:g} s"
    try:
        return json.loads(done.stdout), done.returncode, ""
    except ValueError:
        return None, done.returncode, f"{who} failed, code {done.returncode}: {done.stderr.strip()[-2_000:]}"
