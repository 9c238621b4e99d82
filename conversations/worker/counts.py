"""Counts and durations of a worker since it started. Other programs read them by the names in ``conversations.metrics``."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from conversations.worker.durations import Durations


@dataclass(slots=True)
class Traffic:
    """Counts of what moves through a worker. Each count only grows."""

    sent: int = 0
    """Messages of this side that got their number."""
    acknowledged: int = 0
    """Numbers of this side that the peers acknowledged: messages and ENDs."""
    early: int = 0
    """Messages that were held because a message before them is missing."""
    retransmitted: int = 0
    """Times that unacknowledged envelopes of a dialog were transmitted again to another cluster."""
    corrupt: int = 0
    """Records that were discarded because they were damaged between two clusters."""
    not_authentic: int = 0
    """Records that were discarded because their alleged senders have not sealed them."""
    parked: int = 0
    """Waits of failed messages and handlers, and of those that the queue or the brake stops."""
    timers: int = 0
    """Timers that fired."""
    brakes: int = 0
    """Times that the brake went on for a peer."""
    restored: int = 0
    """Partitions that were restored and opened."""
    rows: int = 0
    """Rows that these restores copied."""
    built_anew: int = 0
    """Partitions that were built anew: a step failed outside a handler, a local copy was damaged, or a topic refused what was published."""
    aborted: int = 0
    """Transactions that Kafka aborted for a passing reason. They are committed again."""
    in_doubt: int = 0
    """Commits whose outcome is not known. The worker joins again."""

    def count_sent(self) -> None:
        """Count a message that got its number."""
        self.sent += 1

    def count_acknowledged(self, numbers: int) -> None:
        """Count numbers that a peer acknowledged."""
        self.acknowledged += numbers

    def count_early(self) -> None:
        """Count a message that is held because a message before it is missing."""
        self.early += 1

    def count_retransmitted(self) -> None:
        """Count a dialog whose unacknowledged envelopes are transmitted again."""
        self.retransmitted += 1

    def count_corrupt(self) -> None:
        """Count a record that is discarded because it was damaged between two clusters."""
        self.corrupt += 1

    def count_not_authentic(self) -> None:
        """Count a record that is discarded because its alleged sender has not sealed it."""
        self.not_authentic += 1

    def count_parked(self) -> None:
        """Count a wait of a message or a handler."""
        self.parked += 1

    def count_timers(self, fired: int) -> None:
        """Count timers that fired."""
        self.timers += fired

    def count_brake(self) -> None:
        """Count a brake that went on."""
        self.brakes += 1

    def count_restore(self, rows: int) -> None:
        """Count a partition that was restored and opened, and the rows that were copied."""
        self.restored += 1
        self.rows += rows

    def count_built_anew(self) -> None:
        """Count a partition that is built anew."""
        self.built_anew += 1

    def count_aborted(self) -> None:
        """Count a transaction that is committed again."""
        self.aborted += 1

    def count_in_doubt(self) -> None:
        """Count a commit whose outcome is not known."""
        self.in_doubt += 1


@dataclass(slots=True)
class Counts:
    """Counts of one worker since it started. Each count only grows, by one at a time."""

    handled: int = 0
    """Messages that were handled, and messages of types that the service ignores."""
    failures: int = 0
    """Failed calls of handlers, and messages that were not handled because our own code failed or processes died.

    A call fails if the handler raises an exception or takes too long.
    """
    duplicates: int = 0
    """Envelopes and commands that had taken effect before."""
    dead_letters: int = 0
    """Dead letters that were written."""
    set_aside: int = 0
    """Records that were set aside, because they are not valid or not credible."""
    commands: int = 0
    """Commands that had their turn. Commands that were refused, or had taken effect before, count as well."""
    begun: int = 0
    """Dialogs that this side began."""
    accepted: int = 0
    """Dialogs of peers that this side accepted."""
    broken: int = 0
    """Dialogs that broke with a system code, or that this side refused, without a handler or a client that was told."""
    closed: int = 0
    """Dialogs that are over on this side."""
    commits: int = 0
    """Committed transactions."""
    left_to_sender: int = 0
    """Messages that arrived after the end of their dialog, and whose bytes their sender keeps."""
    fenced: int = 0
    """Commits that Kafka refused because a partition belongs to another worker."""
    traffic: Traffic = field(default_factory=Traffic)
    durations: Durations = field(default_factory=Durations)

    def plain(self) -> dict[str, int]:
        """Return all counts by name, those of ``traffic`` among them."""
        own = {it.name: getattr(self, it.name) for it in fields(self) if it.name not in {"traffic", "durations"}}
        return own | {it.name: getattr(self.traffic, it.name) for it in fields(self.traffic)}

    def count_handled(self) -> None:
        """Count a handled message."""
        self.handled += 1

    def count_failure(self) -> None:
        """Count a failed handler, or a message that was not handled because our own code failed or processes died."""
        self.failures += 1

    def count_duplicate(self) -> None:
        """Count an envelope or a command that had taken effect before."""
        self.duplicates += 1

    def count_left_to_sender(self) -> None:
        """Count a message that arrived after the end of its dialog, and whose bytes its sender keeps."""
        self.left_to_sender += 1

    def count_dead_letter(self) -> None:
        """Count a dead letter that was written."""
        self.dead_letters += 1

    def count_set_aside(self) -> None:
        """Count a record that was set aside."""
        self.set_aside += 1

    def count_command(self) -> None:
        """Count a command that had its turn."""
        self.commands += 1

    def count_begun(self) -> None:
        """Count a dialog that this side began."""
        self.begun += 1

    def count_accepted(self) -> None:
        """Count a dialog of a peer that was accepted."""
        self.accepted += 1

    def count_broken(self) -> None:
        """Count a dialog that broke without a handler or a client that was told."""
        self.broken += 1

    def count_closed(self) -> None:
        """Count a dialog that is over on this side."""
        self.closed += 1

    def count_commit(self) -> None:
        """Count a committed transaction."""
        self.commits += 1

    def count_fenced(self) -> None:
        """Count a fenced commit."""
        self.fenced += 1
