"""The registry of metrics: each metric of the product, declared once. It imports no library for metrics.

``conversations_ops.metrics`` turns reports into metrics by these declarations. The page ``docs/metrics.md`` is made from them.

**Names** follow the rules of Prometheus: a counter ends in ``_total``, a duration is in seconds. **Labels** have few values: services,
workers, partitions, handlers of declared message types, states. A label never has the id of a dialog.

The metrics of a worker are read from its condition (``Worker.condition``). ``field`` is the path to the value there.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

PREFIX: Final = "conversations_"


class Kind(StrEnum):
    """Kinds of metrics, as Prometheus names them."""

    COUNTER = "counter"
    """Only grows, and begins again at 0 when its process starts again."""
    GAUGE = "gauge"
    """The present value."""
    HISTOGRAM = "histogram"
    """Numbers of durations below fixed bounds, and the sum of all durations."""


class Source(StrEnum):
    """Who knows a metric, and so where it is served."""

    WORKER = "worker"
    """A worker process of `conversations run`. Its supervisor serves the metric at ``/metrics``."""
    SUPERVISOR = "supervisor"
    """The supervisor of `conversations run`, at ``/metrics``."""
    FORWARDER = "forwarder"
    """A process of `conversations forward`, at ``/metrics``."""
    CLIENT = "client"
    """A ``Client`` in a process of the application, which serves the metric itself."""
    READ_MODEL = "read model"
    """The read model, which has all services of a namespace. The web console serves the metric."""


class Metric(NamedTuple):
    """One metric."""

    name: str
    kind: Kind
    source: Source
    labels: tuple[str, ...]
    unit: str
    """What one is: ``messages`` or ``seconds``, for example; empty if the value is 0 or 1."""
    text: str
    """One sentence that says what is measured."""
    field: str = ""
    """Path to the value in the report of a worker: ``counts.handled``, for example."""


_WORKER: Final = ("service", "worker")
_PARTITION: Final = (*_WORKER, "partition")
_SERVICE: Final = ("service",)


def _count(name: str, unit: str, field: str, text: str) -> Metric:
    return Metric(f"{PREFIX}{name}_total", Kind.COUNTER, Source.WORKER, _WORKER, unit, text, f"counts.{field}")


def _state(name: str, unit: str, field: str, text: str) -> Metric:
    return Metric(PREFIX + name, Kind.GAUGE, Source.WORKER, _WORKER, unit, text, field)


def _of_partition(name: str, unit: str, field: str, text: str) -> Metric:
    return Metric(f"{PREFIX}partition_{name}", Kind.GAUGE, Source.WORKER, _PARTITION, unit, text, f"partitions.{field}")


def _of_service(name: str, unit: str, text: str, kind: Kind = Kind.GAUGE) -> Metric:
    return Metric(f"{PREFIX}service_{name}", kind, Source.READ_MODEL, _SERVICE, unit, text)


# -- messages -------------------------------------------------------------------------------------------------------

HANDLED: Final = _count(
    "messages_handled", "messages", "handled", "Messages that were handled, and messages of types that the service ignores."
)  # fmt: skip
SENT: Final = _count("messages_sent", "messages", "sent", "Messages that handlers and clients of the service sent.")
ACKNOWLEDGED: Final = _count(
    "envelopes_acknowledged", "envelopes", "acknowledged", "Messages and ENDs of the service that its peers acknowledged."
)  # fmt: skip
DUPLICATES: Final = _count(
    "duplicates_dropped", "records", "duplicates", "Envelopes and commands that arrived again after they took effect, and were dropped."
)  # fmt: skip
EARLY: Final = _count(
    "envelopes_held_early", "envelopes", "early", "Envelopes that were held because an envelope before them is missing."
)  # fmt: skip
RETRANSMITTED: Final = _count(
    "retransmissions", "dialogs", "retransmitted",
    "Times that a dialog transmitted again what its peer on another cluster had not acknowledged.",
)  # fmt: skip
CORRUPT: Final = _count(
    "records_corrupt", "records", "corrupt", "Records that were damaged between two clusters, and were discarded."
)  # fmt: skip
NOT_AUTHENTIC: Final = _count(
    "records_not_authentic", "records", "not_authentic",
    "Records that were discarded because the senders that they name have not sealed them.",
)  # fmt: skip
LEFT_TO_SENDER: Final = _count(
    "messages_left_to_sender", "messages", "left_to_sender",
    "Messages that arrived after the end of their dialog, and whose bytes their sender keeps.",
)  # fmt: skip
SET_ASIDE: Final = _count(
    "records_set_aside", "records", "set_aside", "Records that were set aside because they are not valid or not credible."
)  # fmt: skip
COMMANDS: Final = _count(
    "commands_carried_out", "commands", "commands",
    "Commands that had their turn, among them refused commands and commands that had taken effect before.",
)  # fmt: skip

# -- handlers and failures --------------------------------------------------------------------------------------------

HANDLER_SECONDS: Final = Metric(
    f"{PREFIX}handler_duration_seconds", Kind.HISTOGRAM, Source.WORKER, (*_WORKER, "handler"), "seconds",
    "Durations of handlers that returned or raised an exception, by the name of the handler.", "durations.handlers",
)  # fmt: skip
FAILURES: Final = _count(
    "handler_failures", "failures", "failures",
    "Failed calls of handlers, and messages that were not handled because our own code failed or processes died.",
)  # fmt: skip
PARKED: Final = _count(
    "waits", "waits", "parked",
    "Waits of failed messages and handlers, and of messages that the queue or the brake stops; an attempt that fails again counts again.",
)  # fmt: skip
DEAD_LETTERS: Final = _count("dead_letters", "letters", "dead_letters", "Dead letters that were written.")
BRAKES: Final = _count("brakes", "times", "brakes", "Times that the brake went on for a peer.")
TIMERS: Final = _count("timers_fired", "timers", "timers", "Timers of dialogs that fired.")

# -- dialogs ----------------------------------------------------------------------------------------------------------

BEGUN: Final = _count("dialogs_begun", "dialogs", "begun", "Dialogs that the service began.")
ACCEPTED: Final = _count("dialogs_accepted", "dialogs", "accepted", "Dialogs of peers that the service accepted.")
BROKEN: Final = _count(
    "dialogs_broken", "dialogs", "broken",
    "Dialogs that broke with a system code, or that the service refused, without a handler or a client that was told.",
)  # fmt: skip
CLOSED: Final = _count("dialogs_closed", "dialogs", "closed", "Dialogs that are over on the side of the service.")

# -- transactions and partitions ----------------------------------------------------------------------------------------

COMMITS: Final = _count("commits", "transactions", "commits", "Steps that were committed.")
COMMIT_SECONDS: Final = Metric(
    f"{PREFIX}commit_duration_seconds", Kind.HISTOGRAM, Source.WORKER, _WORKER, "seconds",
    "Durations of commits that took effect.", "durations.commits",
)  # fmt: skip
FENCED: Final = _count(
    "commits_fenced", "commits", "fenced", "Commits that Kafka refused because a partition belongs to another worker."
)  # fmt: skip
ABORTED: Final = _count(
    "commits_aborted", "commits", "aborted", "Transactions that Kafka aborted for a passing reason, and that are committed again."
)  # fmt: skip
IN_DOUBT: Final = _count(
    "commits_in_doubt", "commits", "in_doubt", "Commits whose outcome is not known, so that the worker joins its group again."
)  # fmt: skip
BUILT_ANEW: Final = _count(
    "partitions_built_anew", "partitions", "built_anew",
    "Partitions that were built anew because a step failed outside a handler, a local copy is damaged, or a topic refused what was published.",
)  # fmt: skip
RESTORED: Final = _count("partitions_restored", "partitions", "restored", "Partitions that were restored and opened.")
ROWS_RESTORED: Final = _count("rows_restored", "rows", "rows", "Rows that restores copied from the state topic.")

# -- the present state of a worker ----------------------------------------------------------------------------------------

OPEN: Final = _state("partitions_open", "partitions", "partitions", "Partitions that the worker owns and works on.")
QUEUE_PARTITIONS: Final = _state(
    "queue_partitions", "partitions", "queue_partitions",
    "Partitions of the queue of the service, as a worker with open partitions knows it from the catalog.",
)  # fmt: skip
RESTORING: Final = _state("partitions_restoring", "partitions", "restoring", "Partitions that are being restored.")
ASIDE: Final = _state(
    "partitions_set_aside", "partitions", "aside", "Partitions that the worker has stopped working on until a person acts."
)  # fmt: skip
IDLE: Final = _state("worker_idle_seconds", "seconds", "idle_seconds", "Time since the last step of the worker began.")
UNANSWERED: Final = _state(
    "kafka_unanswered_seconds", "seconds", "kafka.unanswered_seconds", "Time for which Kafka has not answered the worker; 0 while it answers."
)  # fmt: skip
CLOCK: Final = _state(
    "clock_off_seconds", "seconds", "clock_off_seconds", "Difference between the clock of the machine and the time of the log."
)  # fmt: skip
BRAKES_ON: Final = _state("brakes_on", "peers", "brakes", "Peers for which the brake is on.")
BLOCKED: Final = _state(
    "destinations_blocked", "topics", "blocked", "Queues of peers that take no records now, so that envelopes for them are delayed."
)  # fmt: skip

# -- the present state of a partition ---------------------------------------------------------------------------------------

LAG: Final = _of_partition(
    "lag_records", "offsets", "lag", "Offsets between the position of the partition and the end of its queue."
)  # fmt: skip
QUEUE_OFF: Final = _of_partition("queue_off", "", "queue_off", "1 while the queue of the partition is off, else 0.")
PAUSED: Final = _of_partition(
    "queue_paused", "", "paused", "1 while the queue of the partition is not read because too many bytes wait, else 0."
)  # fmt: skip
WAITING: Final = _of_partition(
    "waiting_items", "items", "waiting", "Items in lanes whose handler runs longer than its step, the running ones among them."
)  # fmt: skip
PARKED_NOW: Final = _of_partition("parked_records", "records", "parked", "Records that are parked, the failed ones among them.")  # fmt: skip
HELD: Final = _of_partition(
    "held_messages", "messages", "held", "Failed messages and handlers that wait until an operator decides."
)  # fmt: skip
OLDEST_WAIT: Final = _of_partition(
    "oldest_wait_seconds", "seconds", "oldest_wait_seconds", "Time for which the oldest failed or parked message waits; 0 if none waits."
)  # fmt: skip
DELAYED: Final = _of_partition(
    "delayed_dialogs", "dialogs", "delayed", "Sides of dialogs with envelopes that their destination cannot take now."
)  # fmt: skip
EARLY_NOW: Final = _of_partition(
    "early_dialogs", "dialogs", "early", "Dialogs with envelopes that are held because an envelope before them is missing."
)  # fmt: skip
IN_MEMORY: Final = _of_partition("endpoints_in_memory", "endpoints", "endpoints_in_memory", "Endpoints in memory.")
ROLLBACKS: Final = _of_partition(
    "rollbacks_in_a_row", "steps", "rollbacks", "Steps that failed one after the other outside a handler."
)  # fmt: skip

# -- feeds --------------------------------------------------------------------------------------------------------------------

FED: Final = Metric(
    f"{PREFIX}feed_records_total", Kind.COUNTER, Source.WORKER, (*_WORKER, "topic", "outcome"), "records",
    "Records of a plain topic that a feed committed: outcome `begun`, `skipped` or `refused`.", "feeds",
)  # fmt: skip
FEED_TROUBLE: Final = Metric(
    f"{PREFIX}feed_in_trouble", Kind.GAUGE, Source.WORKER, (*_WORKER, "topic"), "",
    "1 while a feed cannot read its topic or commit, else 0.", "feeds",
)  # fmt: skip

# -- the supervisor -----------------------------------------------------------------------------------------------------------

WORKERS: Final = Metric(
    f"{PREFIX}workers", Kind.GAUGE, Source.SUPERVISOR, ("service", "state"), "workers",
    "Workers of this `conversations run` by their state on the health page; `running` and `idle` are healthy.",
)  # fmt: skip
RESTARTS: Final = Metric(
    f"{PREFIX}worker_restarts_total", Kind.COUNTER, Source.SUPERVISOR, _WORKER, "starts",
    "Starts of a worker process after the end of the process before it.", "restarts",
)  # fmt: skip

# -- forwarders ---------------------------------------------------------------------------------------------------------------


def _forwarded(name: str, unit: str, text: str, kind: Kind = Kind.COUNTER) -> Metric:
    return Metric(f"{PREFIX}forwarder_{name}", kind, Source.FORWARDER, ("cluster",), unit, text)


F_ENVELOPES: Final = _forwarded(
    "envelopes_total", "envelopes", "Envelopes that were appended to queues on the other cluster."
)
F_BATCHES: Final = _forwarded(
    "transactions_total", "transactions", "Transactions that were committed on the other cluster."
)
F_BYTES: Final = _forwarded("bytes_total", "bytes", "Bytes of the envelopes that were appended on the other cluster.")
F_UNKNOWN: Final = _forwarded(
    "unknown_services_total", "envelopes", "Envelopes that were not carried, because the other cluster does not have the service."
)  # fmt: skip
F_FAILURES: Final = _forwarded(
    "failures_total", "failures", "Times that one of the clusters did not answer, or refused something."
)
F_PARTITIONS: Final = _forwarded(
    "partitions", "partitions", "Partitions of the transmission topic that the forwarder carries.", Kind.GAUGE
)
F_LAG: Final = _forwarded(
    "lag_records", "offsets", "Offsets between the positions of its partitions and their ends, also while it cannot carry.", Kind.GAUGE
)  # fmt: skip
F_SUCCESS: Final = _forwarded(
    "last_success_seconds", "seconds", "Time since the last transaction on the other cluster; 0 if there was none yet.", Kind.GAUGE
)  # fmt: skip
F_AWAY: Final = _forwarded(
    "away_seconds", "seconds", "Time for which the forwarder cannot carry; 0 while it can.", Kind.GAUGE
)

# -- clients ------------------------------------------------------------------------------------------------------------------

APPENDED: Final = Metric(
    f"{PREFIX}client_commands_appended_total", Kind.COUNTER, Source.CLIENT, _SERVICE, "commands",
    "Commands that Kafka has taken from clients of this process.", "appended",
)  # fmt: skip
NOT_APPENDED: Final = Metric(
    f"{PREFIX}client_commands_refused_total", Kind.COUNTER, Source.CLIENT, _SERVICE, "commands",
    "Commands of clients of this process that were not appended, or whose appending was not confirmed.", "refused",
)  # fmt: skip

# -- the read model -------------------------------------------------------------------------------------------------------------

S_PARTITIONS: Final = _of_service(
    "partitions", "partitions", "Partitions of the queue of a service, whether or not a worker runs."
)
S_OPEN: Final = _of_service("open_dialogs", "dialogs", "Sides of dialogs that are not closed.")
S_PENDING: Final = _of_service("pending_envelopes", "envelopes", "Sent envelopes that the peers have not acknowledged.")
S_DELAYED: Final = _of_service("delayed_envelopes", "envelopes", "Envelopes that the queues of peers cannot take now.")
S_PARKED: Final = _of_service("parked_records", "records", "Records that are parked, the failed ones among them.")
S_HELD: Final = _of_service(
    "held_messages", "messages", "Failed messages and handlers that wait until an operator decides."
)
S_LETTERS: Final = _of_service(
    "open_letters", "letters", "Dead letters that no dialog waits for, and that no operator has closed."
)  # fmt: skip
S_OFF: Final = _of_service("queues_off", "partitions", "Partitions whose queue is off.")
S_OLDEST: Final = _of_service(
    "oldest_wait_seconds", "seconds", "Time for which the oldest failed message waits; 0 if none waits."
)  # fmt: skip
S_UNREAD: Final = _of_service(
    "records_without_owner", "records", "Records and commands that wait in partitions that no worker has, about 10,000 at most."
)  # fmt: skip
READ: Final = Metric(
    f"{PREFIX}read_model_offsets_total", Kind.COUNTER, Source.READ_MODEL, _SERVICE, "offsets",
    "Offsets of the state topic that the read model has passed; it begins again when the file is made anew.",
)  # fmt: skip
BEHIND: Final = Metric(
    f"{PREFIX}read_model_behind_seconds", Kind.GAUGE, Source.READ_MODEL, _SERVICE, "seconds",
    "Time since the read model last read the state topic of a service to its end.",
)  # fmt: skip

REGISTRY: Final[tuple[Metric, ...]] = tuple(it for it in list(vars().values()) if isinstance(it, Metric))
"""All metrics, in the order of their declaration."""
BOUNDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)
"""Upper bounds of the intervals of histograms, in seconds, each of them included."""
