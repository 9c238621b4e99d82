"""Throughput while some dialogs are parked: ``python -m bench.contenders.parked_loop JOB``.

The contender ``parked_N`` fails at the first message of every N-th dialog. This message waits for hours, and the later messages
of its dialog wait behind it. ``parked_0`` fails at no message.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any

from bench import verify
from bench.contenders import our_loop
from bench.contenders.our_loop import ANSWERING, OPAQUE, OPAQUE_ORDER
from bench.workload import Job
from conversations import Dialog, PoisonPolicy, Service

LATER = PoisonPolicy(delays=[timedelta(hours=6)])


def stuck(job: Job) -> set[str]:
    """Return the ids of the dialogs that are parked."""
    every = int(job.contender.rpartition("_")[2])
    return {key.decode() for key in job.workload.record_keys()[::every]} if every else set()


def handled(job: Job) -> int:
    """Return how many messages are answered: all messages of the dialogs that are not parked."""
    load = job.workload
    full, rest = divmod(load.messages, load.dialogs)
    lengths = [full + (number < rest) for number in range(load.dialogs)]
    every = int(job.contender.rpartition("_")[2])
    return load.messages - (sum(lengths[::every]) if every else 0)


def service(parked: set[str]) -> Service[Any]:
    """Return a service that answers each message with its bytes, and fails in the parked dialogs."""
    made = Service(ANSWERING, accepts=[OPAQUE], poison=[LATER])

    @made.on(OPAQUE_ORDER)
    def answer(body: bytes, dialog: Dialog[Any]) -> None:
        if dialog.id in parked:
            raise ValueError(dialog.id)
        dialog.send(body)

    return made


def verdict(job: Job) -> verify.Verdict:
    """Judge the queue of the asking service: it must have as many answers as the dialogs that are not parked have messages."""
    return verify.queue(job, handled(job))


if __name__ == "__main__":
    told = Job.from_json(sys.argv[1])
    our_loop.run(told, service(stuck(told)), handled(told))
