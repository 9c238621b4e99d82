"""``python -m tests.chaos.remote.network``: the network between two clusters, in a process of its own.

Its standard input has one order, a JSON object, in each line. The first one has the routes and the seed. ``{"away": CLUSTER, "seconds": S}`` lets nothing
through to a cluster for a time. The process ends when its input does.

Besides, in each direction connections are cut, hang, or are slow, for a few seconds at a time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

from tests.chaos.cluster.proxy import CLIENTS, Effect, Proxy, Route, Trouble

PAUSES, LASTS = (2.0, 10.0), (0.5, 3.0)
"""Least and most seconds between two small troubles of a direction, and for which one lasts."""
LATENCY = (0.05, 0.4)


class Network:
    """The process, as the driver of the run sees it. ``routes``: by name of a cluster, the port of the proxy and the port of the broker."""

    def __init__(self, routes: dict[str, tuple[int, int]], seed: int, directory: Path) -> None:
        self.log = directory / "network.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.remote.network"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )  # fmt: skip
        self._order({"routes": routes, "seed": seed})
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it listens

    def away(self, cluster: str, seconds: float) -> None:
        """Let nothing through to a cluster for a time."""
        self._order({"away": cluster, "seconds": seconds})

    def calm(self) -> None:
        """Let no small trouble begin any more."""
        self._order({"calm": True})

    def close(self) -> dict[str, int]:
        """End it, and return what became of connections."""
        try:
            out, _ = self._process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            out, _ = self._process.communicate()
        found: dict[str, int] = json.loads(out or b"{}")
        return found

    def _order(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()


class Troubles(threading.Thread):
    """Begins and ends the troubles on the way to one cluster."""

    def __init__(self, proxy: Proxy, cluster: str, random: Random) -> None:
        super().__init__(name=f"troubles of {cluster}", daemon=True)
        self._proxy, self._random = proxy, random
        self._ways = frozenset({(CLIENTS, cluster), (cluster, CLIENTS)})
        self._away = 0.0
        self._wake = threading.Event()
        self.calm = threading.Event()

    def away(self, seconds: float) -> None:
        """Let nothing through for a time, from now on."""
        self._away = seconds
        self._wake.set()

    def run(self) -> None:
        """Make trouble until the process ends."""
        while True:
            if self._wake.wait(self._random.uniform(*PAUSES)):
                self._wake.clear()
                # One half of the clusters refuse connections, and the other half do not answer.
                effect = self._random.choice([Effect.CUT, Effect.LOST])
                self._last(Trouble(self._ways, effect, resets=True), self._away)
            elif not self.calm.is_set():
                effect = self._random.choice(list(Effect))
                latency, resets = self._random.uniform(*LATENCY), self._random.random() < 0.5
                self._last(Trouble(self._ways, effect, latency, resets), self._random.uniform(*LASTS))

    def _last(self, trouble: Trouble, seconds: float) -> None:
        sys.stderr.write(f"{time.time():.1f} {self.name} {trouble.effect.value} {seconds:.1f} s\n")
        self._proxy.begin(trouble)
        threading.Event().wait(seconds)
        self._proxy.end(trouble)


def main() -> None:
    """Be the network until the input ends."""
    first = json.loads(sys.stdin.readline())
    routes = [Route(listen, target, name, brokers=False) for name, (listen, target) in first["routes"].items()]
    with Proxy(routes) as proxy:
        sys.stdout.write("\n")
        sys.stdout.flush()
        troubles = {it.host: Troubles(proxy, it.host, Random(f"{it.host} {first['seed']}")) for it in routes}
        for each in troubles.values():
            each.start()
        for line in sys.stdin:
            order = json.loads(line)
            if "calm" in order:
                for each in troubles.values():
                    each.calm.set()
            else:
                troubles[order["away"]].away(order["seconds"])
        sys.stdout.write(json.dumps(proxy.counts))


if __name__ == "__main__":
    main()
