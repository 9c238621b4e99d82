"""The first request to a broker: what a broker answers is read, and what anything else answers hurts nobody."""

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

import pytest

from conversations.kafka import handshake
from conversations.kafka.handshake import finalized_features

HEAD = b"\x00\x00\x00\x01\x00\x00\x02\x00\x12\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""Correlation, no error, one request with its versions, no delay."""
FEATURES = b"\x03\x0egroup.version\x00\x01\x00\x01\x00\x14transaction.version\x00\x02\x00\x02\x00"


def answer(tags: bytes, head: bytes = HEAD) -> bytes:
    body = head + tags
    return len(body).to_bytes(4, "big") + body


GOOD = answer(b"\x02\x00\x01\x01\x02" + bytes([len(FEATURES)]) + FEATURES)
"""An answer with a tag that is skipped, and the features."""


@contextmanager
def server(*parts: bytes, ends: bool = True, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Something that listens and answers each connection with some bytes; it yields its port."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            plain, _ = listener.accept()
            with suppress(ssl.SSLError), tls.wrap_socket(plain, server_side=True) if tls else plain as connection:
                connection.recv(1_000)
                for part in parts:
                    connection.sendall(part)
                if not ends:
                    done.wait(30)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        done.set()
        thread.join(30)


def test_the_features_of_an_answer_are_read() -> None:
    with server(GOOD[:3], GOOD[3:20], GOOD[20:]) as port:
        assert finalized_features("127.0.0.1", port, {}) == {"group.version": 1, "transaction.version": 2}


def test_a_broker_without_features_has_none() -> None:
    with server(answer(b"\x00")) as port:
        assert finalized_features("127.0.0.1", port, {}) == {}


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        answer(b"", head=HEAD[:4] + b"\x00\x23"),
        answer(b"", head=b"\x00\x00\x00\x07" + HEAD[4:]),
        answer(b"\x01\x02\xff\xff\xff\xff\xff\xff"),
        answer(b"\x01\x02\x50\x03\x0egroup"),
        answer(b"\x01\x02\x05\x02\x03\xff\xfe\x00"),
        GOOD[:-4],
    ],
)
def test_what_is_no_answer_tells_nothing(said: bytes) -> None:
    with server(said) as port:
        assert finalized_features("127.0.0.1", port, {}) is None


def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "PATIENCE", 0.2)
    began = monotonic()
    with server(GOOD[:10], ends=False) as port:
        assert finalized_features("127.0.0.1", port, {}) is None
        assert monotonic() - began < 15


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_a_broker_with_tls_answers_if_its_certificate_is_trusted(tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    trusted = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(certificate)}
    for host, given, features in (
        ("localhost", trusted, {"group.version": 1, "transaction.version": 2}),
        ("127.0.0.1", trusted, None),
        ("127.0.0.1", {**trusted, "ssl.endpoint.identification.algorithm": "none"}, {"group.version": 1, "transaction.version": 2}),
        ("localhost", {"security.protocol": "ssl"}, None),
        ("127.0.0.1", {"security.protocol": "ssl", "enable.ssl.certificate.verification": "false"}, {"group.version": 1, "transaction.version": 2}),
    ):  # fmt: skip
        with server(GOOD, tls=context) as port:
            assert finalized_features(host, port, given) == features


def test_with_tls_a_server_without_it_is_not_believed() -> None:
    with server(GOOD) as port:
        assert finalized_features("127.0.0.1", port, {"security.protocol": "ssl"}) is None


def test_a_certificate_that_cannot_be_read_is_no_crash(tmp_path: Path) -> None:
    with server(GOOD) as port:
        given = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(tmp_path / "none.pem")}
        assert finalized_features("127.0.0.1", port, given) is None
        socket.create_connection(("127.0.0.1", port), 5).close()  # the server waits for one connection
