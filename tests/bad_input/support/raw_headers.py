"""A producer for records with any bytes as header names. The Python client of Kafka accepts only text as the name of a header."""

import ctypes
from collections.abc import Mapping
from pathlib import Path

import confluent_kafka

_PRODUCER, _COPY = 0, 2
_END, _TOPIC, _PARTITION, _VALUE, _KEY, _FLAGS, _HEADER = 0, 1, 3, 4, 5, 7, 9
"""Numbers with which librdkafka marks the arguments of ``rd_kafka_producev``."""
PATIENCE_MS = 30_000


def _library() -> ctypes.CDLL:
    beside = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    (path,) = beside.glob("librdkafka*.so*")
    library = ctypes.CDLL(str(path))
    library.rd_kafka_conf_new.restype = library.rd_kafka_new.restype = ctypes.c_void_p
    return library


def produce(
    bootstrap: str,
    where: tuple[str, int],
    key: bytes,
    value: bytes,
    headers: list[tuple[bytes, bytes]],
    more: Mapping[str, str] | None = None,
) -> None:
    """Append one record to a topic and partition, and wait until it is there. ``more`` has further librdkafka settings, such as a login."""
    library, problem = _library(), ctypes.create_string_buffer(512)
    settings = ctypes.c_void_p(library.rd_kafka_conf_new())
    for setting, wanted in {"bootstrap.servers": bootstrap, **(more or {})}.items():
        done = library.rd_kafka_conf_set(settings, setting.encode(), wanted.encode(), problem, ctypes.c_size_t(512))
        assert done == 0, problem.value
    producer = ctypes.c_void_p(library.rd_kafka_new(_PRODUCER, settings, problem, ctypes.c_size_t(512)))
    topic, partition = where
    arguments: list[object] = [
        _TOPIC, ctypes.c_char_p(topic.encode()), _PARTITION, partition, _VALUE, value, ctypes.c_size_t(len(value)),
        _KEY, key, ctypes.c_size_t(len(key)), _FLAGS, _COPY,
    ]  # fmt: skip
    for name, content in headers:
        arguments += [_HEADER, name, content, ctypes.c_ssize_t(len(content))]
    assert library.rd_kafka_producev(producer, *arguments, _END) == 0
    assert library.rd_kafka_flush(producer, PATIENCE_MS) == 0
    library.rd_kafka_destroy(producer)
