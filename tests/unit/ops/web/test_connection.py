"""The server of the web console, with real connections of clients that do not ask."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from conversations_ops.web import connection
from conversations_ops.web.server import Listen, bound, is_local, server
from tests.support.waiting import until
from tests.unit.ops.web.test_application import Web

ASK = b"GET /health HTTP/1.1\r\nhost: here\r\n"


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """The address of a console that waits for a head for a short time."""
    monkeypatch.setattr(connection, "PATIENCE", 0.3)
    monkeypatch.setattr(connection, "SHARE", 5)
    listen = Listen("127.0.0.1", 0)
    with bound(listen) as listening:
        made = server(Web(tmp_path).desk, listen)
        thread = Thread(target=made.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        until(lambda: made.started)
        yield listening.getsockname()
        made.should_exit = True
        thread.join(30)


def said(client: socket.socket) -> bytes:
    """Return what the server says until it closes the connection."""
    client.settimeout(20)
    found = b""
    try:
        while part := client.recv(65_536):
            found += part
    except ConnectionResetError:
        return found
    return found


@pytest.mark.parametrize("first", [b"", b"G", ASK, ASK + b"\r\n" + ASK])
def test_a_connection_without_a_whole_request_is_closed(door: tuple[str, int], first: bytes) -> None:
    with socket.create_connection(door) as client:
        client.sendall(first)
        assert said(client).count(b"HTTP/1.1") == first.count(b"\r\n\r\n")


def test_drops_of_a_request_do_not_keep_a_connection(door: tuple[str, int]) -> None:
    with socket.create_connection(door) as client:
        client.settimeout(0.1)
        client.sendall(ASK + b"x: ")

        def closed() -> bool:
            try:
                client.sendall(b"y")
                return client.recv(1) == b""
            except TimeoutError:
                return False
            except (ConnectionResetError, BrokenPipeError):
                return True

        until(closed)


def test_one_address_does_not_take_all_connections(door: tuple[str, int]) -> None:
    clients = [socket.create_connection(door) for _ in range(6)]
    try:
        assert said(clients[5]) == b""
        clients[0].sendall(ASK + b"connection: close\r\n\r\n")
        assert b" 200 " in said(clients[0]) or b" 503 " in said(clients[0])
    finally:
        for client in clients:
            client.close()


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("127.evil.example", False), ("0", False), ("10.0.0.1", False)],
)  # fmt: skip
def test_only_loopback_addresses_are_local(host: str, local: bool) -> None:
    assert is_local(host) is local
