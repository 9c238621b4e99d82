"""Durations of more than ten seconds that are not settings, each with its reason."""

MACHINE = "a wait for a real Kafka, process or disk, which is not shorter when tests shorten the periods"
OPTION = "the default of"
EMBEDDED = "belongs to the broker for tests and demos"
DEMO = "belongs to the demo"
UNIT = "not a duration, but a unit, a count, a code or a word"

EXCEPTIONS: dict[tuple[str, str], str] = {
    ("conversations/client.py", "DEFAULT_TIMEOUT"): f"{OPTION} `Client(timeout=)`; {MACHINE}",
    (
        "conversations/dialog.py",
        "CLOGGED",
    ): "time after which a handler that could not send is called again; equal to the default of `blocked_last`, but independent of it",
    ("conversations/kafka/admin.py", "APPEAR"): MACHINE,
    ("conversations/kafka/commands.py", "ANSWERED_IN"): MACHINE,
    ("conversations/kafka/commands.py", "DELIVERY_TIMEOUT"): MACHINE,
    ("conversations/kafka/commands.py", "WAITING"): UNIT,
    ("ops/conversations_ops/broker/broker.py", "FORMAT_TIMEOUT"): EMBEDDED,
    ("ops/conversations_ops/broker/broker.py", "START_TIMEOUT"): EMBEDDED,
    ("ops/conversations_ops/broker/broker.py", "oldest"): EMBEDDED,
    ("ops/conversations_ops/broker/java.py", "VERSION_TIMEOUT"): EMBEDDED,
    ("ops/conversations_ops/broker/maven.py", "REQUEST_TIMEOUT"): EMBEDDED,
    ("ops/conversations_ops/broker/named.py", "STOP_TIMEOUT"): EMBEDDED,
    ("ops/conversations_ops/broker/server.py", "SETTINGS"): EMBEDDED,
    ("conversations/kafka/offsets.py", "LED_WITHIN"): MACHINE,
    ("conversations/kafka/offsets.py", "OPEN_FOR"): MACHINE,
    ("ops/conversations_ops/demo/replay.py", "CONFIRMED_WITHIN"): MACHINE,
    ("conversations/kafka/restore.py", "STUCK_AFTER"): MACHINE,
    ("conversations/kafka/append_in_order.py", "PATIENCE"): MACHINE,
    ("conversations/kafka/group_states.py", "PATIENCE"): MACHINE,
    ("conversations/kafka/transactions.py", "COMMIT_PATIENCE"): MACHINE,
    ("conversations/kafka/transactions.py", "POLL_EVERY"): UNIT,
    ("conversations/local.py", "START_SECONDS"): MACHINE,
    ("conversations/poison.py", "LONGEST"): "longest delay that a policy may have; the application chooses the delays",
    (
        "conversations/worker/broken_dialogs.py",
        "PAUSE",
    ): "how often operators are told of the same failure; no dialog depends on it",
    ("conversations/protocol/contract.py", "DEFAULT_LIFETIME"): "a placeholder for the period `lifetime`",
    ("conversations/protocol/acknowledgements.py", "ACK_EVERY"): UNIT,
    ("conversations/protocol/endpoint.py", "SECOND"): UNIT,
    ("conversations/protocol/topics.py", "_UNITS"): UNIT,
    (
        "conversations/service.py",
        "DEFAULT_TIME_LIMIT",
    ): f"{OPTION} `time_limit=` of a handler, whose work takes real time",
    ("conversations/worker/intake.py", "MILLISECOND"): UNIT,
    (
        "conversations/testing/process_clock.py",
        "FARTHEST",
    ): "how far the clock of a simulated process may be wrong; not a period",
    ("conversations/worker/departure.py", "SECOND"): UNIT,
    (
        "conversations/worker/refused_commands.py",
        "WITHIN",
    ): "how often the log may tell of refused commands; no record depends on it",
    ("conversations/worker/log_clock.py", "RESOLUTION"): "a millisecond, in microseconds",
    ("conversations/worker/destinations.py", "REMEMBERED"): UNIT,
    ("ops/conversations_ops/cli/dead_letters.py", "wait"): f"{OPTION} `--wait`; {MACHINE}",
    ("ops/conversations_ops/cli/queue.py", "wait"): f"{OPTION} `--wait`; {MACHINE}",
    ("ops/conversations_ops/cli/detached.py", "wait"): f"{OPTION} `--wait`; {MACHINE}",
    ("ops/conversations_ops/demo/aircraft_log.py", "gap"): DEMO,
    ("ops/conversations_ops/demo/expected.py", "gaps"): DEMO,
    ("ops/conversations_ops/demo/mending.py", "TIMEOUT"): DEMO,
    ("ops/conversations_ops/demo/pipeline.py", "PATIENCE"): DEMO,
    ("ops/conversations_ops/demo/run.py", "DRAINING"): DEMO,
    ("ops/conversations_ops/demo/run.py", "STANDSTILL"): DEMO,
    ("ops/conversations_ops/demo/workers.py", "START_TIMEOUT"): DEMO,
    ("ops/conversations_ops/operate/state.py", "PATIENCE"): MACHINE,
    ("ops/conversations_ops/operate/redrive/drive.py", "PATIENCE"): MACHINE,
    ("ops/conversations_ops/operate/redrive/plan.py", "rate"): UNIT,
    (
        "ops/conversations_ops/host/restarts.py",
        "HEALTHY",
    ): "time that a real process must live before the waits between its restarts begin again with the shortest",
    ("ops/conversations_ops/host/supervisor.py", "ALONE"): MACHINE,
    ("ops/conversations_ops/host/supervisor.py", "STUCK"): MACHINE,
    ("spark_jobs/archive.py", "LOOK_BACK"): f"{OPTION} `--look-back` in days",
    ("spark_jobs/reading/archive_log.py", "KEPT"): UNIT,
    ("spark_jobs/running/command_line.py", "ENDING"): MACHINE,
    ("spark_jobs/dead_letter_triage.py", "HOUR"): f"{OPTION} `--window` and `--new-within`",
    ("spark_jobs/dialog_metrics.py", "RANGE"): f"{OPTION} `--since`, the start of the range that is shown",
    ("spark_jobs/dialog_metrics.py", "COMPLETE_AFTER"): MACHINE,
    ("spark_jobs/reading/dialogs.py", "REMEMBERED"): f"{OPTION} `remember=`",
    (
        "spark_jobs/stuck_dialogs.py",
        "(DAY, HOUR, PATIENCE)",
    ): f"{OPTION} `--older-than`, `--waiting-for` and `--lifetime-within`, which select the dialogs to show",
    ("ops/conversations_ops/console/times.py", "MINUTE"): UNIT,
    ("ops/conversations_ops/console/times.py", "_SECONDS"): UNIT,
}
"""Reason of each exception, by file and name of the duration."""
