"""Kafka in Docker, from the official image. The class KafkaContainer of testcontainers cannot start this image."""

import tenacity
from testcontainers.core.container import DockerContainer

from conversations_ops.broker.broker import serves
from conversations_ops.broker.server import KAFKA_VERSION, SETTINGS
from conversations_ops.broker.sockets import free_ports

IMAGE = f"apache/kafka:{KAFKA_VERSION}"
CONTROLLER_PORT = 9093


def variable(setting: str) -> str:
    """Return the environment variable by which the image gets a setting: ``a.b_c`` is ``KAFKA_A_B__C``."""
    return "KAFKA_" + setting.replace("_", "__").replace(".", "_").upper()


class DockerKafka(DockerContainer):
    """One KRaft node with the settings of the embedded broker. The port is chosen before the start, because the broker must advertise it."""

    def __init__(self, image: str = IMAGE) -> None:
        super().__init__(image)
        (self.port,) = free_ports(1)
        self.with_bind_ports(self.port, self.port)
        listeners = f"PLAINTEXT://0.0.0.0:{self.port},CONTROLLER://127.0.0.1:{CONTROLLER_PORT}"
        own = {
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://{self.get_container_host_ip()}:{self.port}",
            "controller.quorum.voters": f"1@127.0.0.1:{CONTROLLER_PORT}",
        }
        for setting, value in (SETTINGS | own).items():
            self.with_env(variable(setting), value)

    @property
    def bootstrap(self) -> str:
        return f"{self.get_container_host_ip()}:{self.port}"

    def wait_until_ready(self) -> None:
        """Wait until the broker serves clients, at most a minute."""
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_result(lambda answer: not answer),
            stop=tenacity.stop_after_delay(60),
            wait=tenacity.wait_fixed(0.2),
        )
        attempts(serves, self.bootstrap)
