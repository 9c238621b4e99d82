"""A forwarder in a real process."""

import re
import subprocess
import urllib.request
from pathlib import Path
from typing import Self
from uuid import uuid4

from conversations import Kafka
from tests.acceptance.support.command_line import PROGRAM, SERVICES, environment
from tests.support.waiting import until


class Forwarding:
    """A ``conversations forward`` in the background. At the end of the ``with`` block it is killed."""

    def __init__(self, kafka: Kafka, cluster: str, out: Path, *arguments: str) -> None:
        command = [str(PROGRAM), "forward", cluster, *where(kafka), "--health", "0", "--json", *arguments]
        self.log = out / f"forward-{cluster}-{uuid4().hex[:6]}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=SERVICES, env=environment(out), stdout=subprocess.PIPE, stderr=log
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.communicate()

    def target(self) -> str:
        """Wait until the forwarder serves metrics. Return the ``HOST:PORT`` of their page."""
        served = until(
            lambda: re.findall(r"metrics http://([\d.:]+)/metrics", self.log.read_text()), "a page of metrics"
        )
        return str(served[0])

    def metric(self, name: str) -> float:
        """Return a metric that the forwarder serves now."""
        with urllib.request.urlopen(f"http://{self.target()}/metrics", timeout=10) as answer:
            page = answer.read().decode()
        (found,) = re.findall(rf'^conversations_forwarder_{name}{{cluster="emea"}} (\S+)$', page, re.MULTILINE)
        return float(found)


def where(kafka: Kafka) -> list[str]:
    return ["--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace]
