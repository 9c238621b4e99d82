"""``python -m tests.chaos.remote.forwarding``: a forwarder that does harm to what it carries, in a process of its own.

Kafka's protocol has checksums and numbers of its own, so no proxy can lose, repeat, swap or damage single records unnoticed. This process is the
product's forwarder. Only between reading and appending some envelopes are lost, repeated, appended later, or damaged.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from enum import StrEnum
from pathlib import Path
from random import Random

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.carrier import Carrier
from conversations.kafka.catalog import read_catalog
from conversations.kafka.feed_input import FeedInput
from conversations.kafka.forwarder import Forwarder
from conversations.ports import Out, Record
from conversations.protocol.envelope import Kind, decode
from conversations.protocol.routes import Cluster
from tests.chaos.remote.planted import LOSES, planted

log = logging.getLogger("conversations.chaos")


class Fault(StrEnum):
    """What may happen to an envelope."""

    LOSE = "lost"
    REPEAT = "repeated"
    LATER = "out of order"
    FLIP = "damaged"


class Harm:
    """Decides which envelopes are harmed, and keeps those that come later."""

    def __init__(self, share: float, faults: Sequence[Fault], random: Random) -> None:
        self._share, self._faults, self._random = share, faults, random
        self._later: list[Out] = []
        self._loses = planted() == LOSES

    def harmed(self, outs: Sequence[Out]) -> list[Out]:
        """Return what is appended instead of these envelopes. What comes later is appended after envelopes of a later call."""
        found: list[Out] = []
        later, self._later = self._later, []
        for out in outs:
            if self._loses and _is_planted(out):
                continue
            fault = self._random.choice(self._faults) if self._random.random() < self._share else None
            if fault is Fault.LATER:
                self._later.append(out)
                continue
            if fault is Fault.FLIP:
                found.append(self._flipped(out))
            elif fault is not Fault.LOSE:
                found.append(out)
            if fault is Fault.REPEAT:
                found.insert(self._random.randrange(len(found)), out)
        return found + later

    def _flipped(self, out: Out) -> Out:
        value = bytearray(out.value or b"\0")
        value[self._random.randrange(len(value))] ^= 1 << self._random.randrange(8)
        return out._replace(value=bytes(value))


class Harming(Carrier):
    """Harms what another carrier appends. The position is that of the other one."""

    def __init__(self, carrier: Carrier, harm: Harm) -> None:
        self._carrier, self._harm = carrier, harm

    def append(self, outs: Sequence[Out], position: int) -> None:
        """Append what is left of the envelopes."""
        self._carrier.append(self._harm.harmed(outs), position)

    def commit(self) -> None:
        """Commit what the other carrier has appended."""
        self._carrier.commit()


class HarmingForwarder(Forwarder):
    """A forwarder whose carriers do harm."""

    def __init__(self, here: Kafka, cluster: Cluster, there: Kafka, harm: Harm) -> None:
        super().__init__(here, cluster, there)
        self._harm = harm

    def _carry(
        self, records: Sequence[Record], inputs: FeedInput, carriers: Mapping[int, Carrier], commits: Executor
    ) -> None:
        super()._carry(records, inputs, {number: Harming(it, self._harm) for number, it in carriers.items()}, commits)


def _is_planted(out: Out) -> bool:
    """Return True for one message of each dialog: the checker must find that it is lost."""
    envelope = decode(out.value or b"")
    return envelope.kind is Kind.MESSAGE and envelope.seq == 3


class Forwarders:
    """All processes of forwarders, which are started again whenever one ends.

    Args:
        ways: by name of the cluster that a forwarder carries to, the cluster that it reads.
        each: number of forwarders in each direction.
        options: further options of each process.
    """

    def __init__(
        self, ways: Mapping[str, Kafka], each: int, options: Sequence[str], seed: int, directory: Path
    ) -> None:
        self._ways, self._options, self._seed = ways, options, seed
        self.log = directory / "forwarders.log"
        self.running: dict[tuple[str, int], subprocess.Popen[bytes] | None] = dict.fromkeys(
            (name, number) for name in ways for number in range(each)
        )
        self.counts: Counter[str] = Counter()
        self._killed: set[int] = set()

    def tend(self) -> None:
        """Start again what has ended."""
        for place, process in self.running.items():
            if process is not None and process.poll() is not None:
                self.counts["forwarders ended by themselves"] += process.pid not in self._killed
                self._killed.discard(process.pid)
            if process is None or process.returncode is not None:
                self.running[place] = self._start(place[0])

    def kill(self, place: tuple[str, int]) -> None:
        """SIGKILL one, if it runs."""
        process = self.running[place]
        if process is not None and process.poll() is None:
            self._killed.add(process.pid)
            process.send_signal(signal.SIGKILL)
            self.counts["forwarders killed"] += 1

    def stop(self) -> None:
        """End all."""
        for process in self.running.values():
            if process is not None:
                process.kill()
                process.wait()

    def _start(self, cluster: str) -> subprocess.Popen[bytes]:
        self.counts["forwarders started"] += 1
        here = self._ways[cluster]
        command = [
            sys.executable, "-m", "tests.chaos.remote.forwarding", cluster, "--bootstrap", here.bootstrap, "--namespace", here.namespace,
            "--seed", f"{self._seed} {cluster} {self.counts['forwarders started']}", *self._options,
        ]  # fmt: skip
        with self.log.open("ab") as log:
            return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)


def _end_with_driver() -> None:
    sys.stdin.read()  # the driver holds the other end, so this returns when the driver has ended
    os._exit(1)


def main(arguments: Sequence[str]) -> int:
    """Carry until the process is killed; return 1 if there is no route, or no Kafka at the start."""
    parser = argparse.ArgumentParser()
    parser.add_argument("cluster")
    for name in ("--bootstrap", "--namespace", "--seed", "--share", "--faults"):
        parser.add_argument(name, required=True)
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {os.getpid()} {given.cluster} %(message)s")
    threading.Thread(target=_end_with_driver, daemon=True).start()
    here = Kafka(given.bootstrap, namespace=given.namespace)
    harm = Harm(float(given.share), [Fault(it) for it in given.faults.split(",")], Random(given.seed))
    try:
        cluster = read_catalog(here).clusters[given.cluster]
        HarmingForwarder(here, cluster, Kafka(cluster.bootstrap, namespace=cluster.namespace), harm).run()
    except (LogError, KeyError) as error:
        log.warning("ended: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
