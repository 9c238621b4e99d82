"""The same work in Quix Streams, exactly once, with its state store against duplicates: ``python -m bench.contenders.quix_loop JOB``.

It runs in an environment of its own (``bench/contenders/quix_environment.py``). So it imports only modules of ours that need no
package except ``fastavro``.
"""

from __future__ import annotations

import sys
from typing import Any

import quixstreams  # type: ignore[import-not-found]  # installed in an environment of its own
from quixstreams import Application, State
from quixstreams.checkpointing import Checkpoint  # type: ignore[import-not-found]
from quixstreams.models.serializers import Deserializer, Serializer  # type: ignore[import-not-found]

from bench.stopwatch import Stopwatch, report
from bench.wire import decode, encode
from bench.workload import Job


class Decode(Deserializer):  # type: ignore[misc]
    def __call__(self, value: bytes, ctx: Any) -> Any:  # noqa: ARG002 - called by name
        return decode(value)


class Encode(Serializer):  # type: ignore[misc]
    def __call__(self, value: Any, ctx: Any) -> bytes:  # noqa: ARG002 - called by name
        return encode(value)


class Loop:
    """The application, its counts, and the time of its last commit."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.watch = Stopwatch()
        self.done = self.commits = 0
        self.elapsed = (0.0, 0.0)
        self.app = Application(
            broker_address=job.bootstrap, consumer_group=job.space, auto_offset_reset="earliest",
            processing_guarantee="exactly-once", commit_interval=1.0, state_dir=job.directory, loglevel="WARNING",
            consumer_extra_config={"queued.min.messages": 200_000, "fetch.wait.max.ms": 100},
        )  # fmt: skip

    def reply(self, envelope: Any, state: State) -> Any:
        """Answer a message unless it was answered before."""
        self.watch.start()
        self.done += 1
        if self.done >= self.job.workload.messages:
            self.app.stop()  # ends with a last commit
        seq = state.get("next", 0)
        if envelope["seq"] != seq:
            return None
        state.set("next", seq + 1)
        envelope["kind"], envelope["ack"] = "REPLY", seq
        return envelope

    def run(self) -> None:
        """Work until every message is answered and committed."""
        source = self.app.topic(self.job.source, value_deserializer=Decode(), key_deserializer="str")
        target = self.app.topic(self.job.target, value_serializer=Encode(), key_serializer="str")
        frame = self.app.dataframe(source).apply(self.reply, stateful=True)
        frame.filter(lambda envelope: envelope is not None).to_topic(target)
        commit = Checkpoint.commit

        def timed(checkpoint: Checkpoint, **options: Any) -> None:
            commit(checkpoint, **options)
            self.commits, self.elapsed = self.commits + 1, self.watch.elapsed()

        Checkpoint.commit = timed
        self.app.run()


def main(text: str) -> None:
    loop = Loop(Job.from_json(text))
    loop.run()
    report(loop.done, loop.elapsed, loop.commits, quixstreams=quixstreams.__version__)


if __name__ == "__main__":
    main(sys.argv[1])
