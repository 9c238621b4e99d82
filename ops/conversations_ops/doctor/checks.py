"""The table of all checks."""

from __future__ import annotations

from conversations_ops.doctor import cluster, machine, rights, topics
from conversations_ops.doctor.facts import Facts
from conversations_ops.doctor.findings import Check, Finding, Hit, Severity, run

UNSEEN = Check(
    "not-looked-at", Severity.NOTE, "What was not looked at may be wrong.",
    "give the user of this client DESCRIBE_CONFIGS on the cluster, and DESCRIBE, DESCRIBE_CONFIGS and READ on the topics",
    lambda facts: [Hit("doctor", why, "the right, or a broker that answers") for why in facts.not_seen],
)  # fmt: skip
CHECKS: tuple[Check, ...] = (*cluster.CHECKS, *topics.CHECKS, *rights.CHECKS, *machine.CHECKS, UNSEEN)
"""All checks. Each name occurs once."""


def findings(facts: Facts) -> list[Finding]:
    """Return what all checks find, the worst first."""
    return run(CHECKS, facts)


def refusals(facts: Facts) -> list[Finding]:
    """Return what is fatal about the cluster. ``conversations apply`` makes and mends topics, but cannot mend this."""
    return run((it for it in cluster.CHECKS if it.severity is Severity.FATAL), facts)
