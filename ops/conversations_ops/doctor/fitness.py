"""Whether a cluster is fit for a namespace. ``conversations apply`` asks before it changes anything."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from conversations.config import Kafka, Periods
from conversations.errors import DeclarationError, KafkaUnreachable, LogError
from conversations.kafka.cluster import Cluster, look_at_cluster
from conversations_ops.doctor.checks import refusals
from conversations_ops.doctor.cluster import CHECKS
from conversations_ops.doctor.facts import Facts, Machine, Namespace
from conversations_ops.doctor.findings import Finding, Severity
from conversations_ops.doctor.replicas import ENOUGH

log = logging.getLogger("conversations.ops")
REFUSED = tuple(it.name for it in CHECKS if it.severity is Severity.FATAL)
"""Names of the findings that ``conversations apply`` refuses."""
DEFAULT = -1
"""The replication factor with which the cluster chooses its own default."""


class ClusterUnfit(LogError):
    """The cluster has a fatal finding. The message has each finding, its fix, and how to go on all the same."""


@dataclass(frozen=True)
class Fitness:
    """What the doctor knows about a cluster."""

    cluster: Cluster
    found: tuple[Finding, ...]
    """The fatal findings."""

    def refuse(self, despite: Sequence[str]) -> list[str]:
        """Return a line for each finding that is named in ``despite``.

        Raises:
            ClusterUnfit: there is another finding.
        """
        others = [it for it in self.found if it.check.name not in despite]
        if others:
            said = "\n".join(f"{it.line}\nfix: {it.fix}" for it in others)
            names = " ".join(f"--despite {name}" for name in dict.fromkeys(it.check.name for it in others))
            raise ClusterUnfit(
                f"nothing was changed, because the cluster is not fit:\n{said}\nto go on all the same: {names}"
            )
        return [f"went on despite {it.line}" for it in self.found]

    def replication(self, asked: int) -> int:
        """Return the replication factor for new topics. ``asked`` is -1 for the cluster's default.

        A default of three or more is returned as a number, because new topics then get ``min.insync.replicas`` of 2. Kafka's default of 1
        would make them unsafe.
        """
        settings = [(it.settings or {}).get("default.replication.factor", "") for it in self.cluster.brokers]
        known = {int(value) for value in settings if value.isdigit()}
        return known.pop() if asked == DEFAULT and len(known) == 1 and min(known) >= ENOUGH else asked


def look(kafka: Kafka, periods: Periods, targets: Sequence[str] = ()) -> Fitness:
    """Ask a cluster whether it is fit. If this client may not ask, a warning says so.

    Raises:
        KafkaUnreachable: no broker answered.
    """
    try:
        cluster = look_at_cluster(kafka)
    except KafkaUnreachable:
        raise
    except LogError as failure:
        log.warning("it is not known whether the cluster is fit: %s", failure)
        return Fitness(Cluster(()), ())
    facts = Facts(kafka.bootstrap, cluster, Namespace(kafka.namespace), Machine(), periods, targets=tuple(targets))
    return Fitness(cluster, tuple(refusals(facts)))


def check_names(despite: Sequence[str]) -> None:
    """Check names of findings that ``conversations apply`` refuses.

    Raises:
        DeclarationError: there is no such finding.
    """
    for name in despite:
        if name not in REFUSED:
            near = difflib.get_close_matches(name, REFUSED, 1)
            guess = f"; the nearest name is {near[0]}" if near else f"; the names are {', '.join(REFUSED)}"
            raise DeclarationError(
                f"--despite {name!r:.80}: `conversations apply` refuses no finding of this name{guess}"
            )
