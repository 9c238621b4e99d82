"""The network of a cluster: what a trouble does to bytes, by direction, whoever opened the connection."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from conversations_ops.broker.server import HOST
from conversations_ops.broker.sockets import free_ports
from tests.chaos.cluster.proxy import CLIENTS, Effect, Proxy, Route, Trouble, Way
from tests.support.waiting import until

PATIENCE = 10.0
A_MOMENT = 0.3
"""Seconds in which what can arrive arrives on any machine that is not the proof of anything else."""


class Echo:
    """A server that repeats what it hears, and remembers it."""

    def __init__(self) -> None:
        self._server = socket.create_server((HOST, 0))
        self.port = self._server.getsockname()[1]
        self.heard = b""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                threading.Thread(target=self._repeat, args=(connection,), daemon=True).start()

    def _repeat(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(1000):
                self.heard += data
                connection.sendall(data)

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


class Network:
    def __init__(self, echo: Echo, proxy: Proxy, ports: tuple[int, int]) -> None:
        self.echo, self.proxy = echo, proxy
        self.clients, self.brokers = ports

    def connect(self, port: int | None = None) -> socket.socket:
        return socket.create_connection((HOST, port or self.clients), PATIENCE)

    @contextlib.contextmanager
    def trouble(self, effect: Effect, *ways: Way, resets: bool = False) -> Iterator[None]:
        trouble = Trouble(frozenset(ways), effect, resets=resets)
        self.proxy.begin(trouble)
        yield
        self.proxy.end(trouble)


@pytest.fixture
def network() -> Iterator[Network]:
    echo = Echo()
    ports = free_ports(2)
    routes = [Route(ports[0], echo.port, "1", brokers=False), Route(ports[1], echo.port, "1", brokers=True)]
    with Proxy(routes) as proxy:
        yield Network(echo, proxy, (ports[0], ports[1]))
    echo.close()


def request(client: bytes) -> bytes:
    """Beginning of a request of a client with this id."""
    body = struct.pack(">hhih", 18, 3, 1, len(client)) + client
    return struct.pack(">i", len(body)) + body


def answer(connection: socket.socket, said: bytes) -> bytes:
    connection.sendall(said)
    heard = b""
    while len(heard) < len(said) and (data := connection.recv(1000)):
        heard += data
    return heard


def ended(connection: socket.socket) -> bool:
    """Whether the other side is gone, in order or not."""
    try:
        return connection.recv(1000) == b""
    except ConnectionError:
        return True


def test_without_trouble_bytes_pass_in_both_directions(network: Network) -> None:
    with network.connect() as connection:
        assert answer(connection, b"hello") == b"hello"


def test_a_cut_resets_what_is_there_refuses_what_comes_and_leaves_others_alone(network: Network) -> None:
    with network.connect() as connection, network.connect(network.brokers) as other:
        assert answer(connection, b"hello") == b"hello"
        assert answer(other, request(b"raft-client-2")) == request(b"raft-client-2")
        with network.trouble(Effect.CUT, (CLIENTS, "1")):
            assert ended(connection)
            with network.connect() as late:
                assert ended(late)
            assert answer(other, b"still here") == b"still here"
    with network.connect() as connection:
        assert answer(connection, b"again") == b"again"


def test_what_is_lost_in_one_direction_arrives_in_the_other_and_comes_late(network: Network) -> None:
    with network.connect() as connection:
        assert answer(connection, b"hello") == b"hello"
        with network.trouble(Effect.LOST, ("1", CLIENTS)):
            connection.sendall(b"do you hear me")
            until(lambda: network.echo.heard.endswith(b"hear me"), "the server hears")
            connection.settimeout(A_MOMENT)
            with pytest.raises(TimeoutError):
                connection.recv(1000)
        connection.settimeout(PATIENCE)
        assert connection.recv(1000) == b"do you hear me"


def test_what_is_lost_for_good_resets_its_connection_in_the_end(network: Network) -> None:
    with network.connect() as connection:
        assert answer(connection, b"hello") == b"hello"
        with network.trouble(Effect.LOST, (CLIENTS, "1"), resets=True):
            connection.sendall(b"never heard")
            until(lambda: network.proxy.counts["bytes held"] > 0, "the bytes are held")
        assert ended(connection)
        assert network.echo.heard == b"hello"


@pytest.mark.parametrize("name", [b"broker-2-fetcher-0", b"raft-client-2", b"2", b"broker-2-txn-marker-sender"])
def test_a_broker_is_known_by_its_first_request(network: Network, name: bytes) -> None:
    with network.connect(network.brokers) as two, network.connect(network.brokers) as three:
        assert answer(two, request(name)) == request(name)
        assert answer(three, request(b"3")) == request(b"3")
        with network.trouble(Effect.CUT, ("1", "2")):
            assert ended(two)
            assert answer(three, b"still here") == b"still here"
    assert not network.proxy.strangers


def test_a_broker_that_does_not_say_which_it_is_is_told_of(network: Network) -> None:
    with network.connect(network.brokers) as connection:
        assert answer(connection, request(b"somebody")) == request(b"somebody")
    assert network.proxy.strangers == {"somebody": 1}


def test_an_attempt_to_connect_while_bytes_are_lost_hangs_and_fails(network: Network) -> None:
    with network.trouble(Effect.LOST, (CLIENTS, "1")):
        connection = network.connect()
        until(lambda: network.proxy.counts["connections that hung"] > 0, "the attempt hangs")
    with connection:
        assert ended(connection)
    assert network.echo.heard == b""
