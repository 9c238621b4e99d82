"""The SQLite file of the read model: where it is, its tables, and when it must be made anew."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self

import tenacity

from conversations.config import Kafka
from conversations.errors import LogError
from conversations_ops.cache import FIX, cache_directory, writable

DIRECTORY = "read-model"
"""Name of its directory in the cache directory."""
VERSION = 8
"""Version of the tables. A file of another version is thrown away."""
BUSY = 9.0
"""Seconds to wait for another process that writes the same file."""

_TABLES = """
CREATE TABLE places (
  topic TEXT NOT NULL, partition INTEGER NOT NULL, service TEXT NOT NULL, kind TEXT NOT NULL, topic_id TEXT NOT NULL,
  next INTEGER NOT NULL, read_at INTEGER NOT NULL,
  PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
CREATE TABLE rows (
  service TEXT NOT NULL, partition INTEGER NOT NULL, key BLOB NOT NULL, own BLOB NOT NULL, value BLOB NOT NULL,
  PRIMARY KEY (service, partition, key)
) WITHOUT ROWID;
CREATE INDEX rows_of_side ON rows (service, partition, own);
CREATE TABLE changed (
  service TEXT NOT NULL, partition INTEGER NOT NULL, own BLOB NOT NULL,
  PRIMARY KEY (service, partition, own)
) WITHOUT ROWID;
CREATE TABLE sides (
  service TEXT NOT NULL, partition INTEGER NOT NULL, own BLOB NOT NULL, contract TEXT NOT NULL, peer TEXT NOT NULL, state INTEGER NOT NULL,
  began INTEGER, closed INTEGER NOT NULL, pending INTEGER NOT NULL, parked INTEGER NOT NULL, delayed INTEGER NOT NULL,
  key TEXT NOT NULL, code INTEGER NOT NULL,
  PRIMARY KEY (service, partition, own)
) WITHOUT ROWID;
CREATE INDEX sides_by_id ON sides (own);
CREATE INDEX sides_by_state ON sides (service, state, own);
CREATE INDEX sides_by_key ON sides (key, own);
CREATE INDEX sides_unacknowledged ON sides (service, peer) WHERE pending > 0;
CREATE INDEX sides_that_wait ON sides (service, state, own) WHERE parked > 0 OR delayed > 0;
CREATE INDEX sides_with_error ON sides (service, state, own) WHERE code <> 0;
CREATE TABLE sums (
  service TEXT NOT NULL, partition INTEGER NOT NULL, peer TEXT NOT NULL, open INTEGER NOT NULL, pending INTEGER NOT NULL,
  delayed INTEGER NOT NULL, parked INTEGER NOT NULL, kept_back INTEGER NOT NULL,
  PRIMARY KEY (service, partition, peer)
) WITHOUT ROWID;
CREATE TABLE parked (
  service TEXT NOT NULL, partition INTEGER NOT NULL, own BLOB NOT NULL, letter TEXT NOT NULL, what TEXT NOT NULL, exception TEXT NOT NULL,
  failure TEXT NOT NULL, since INTEGER NOT NULL, due INTEGER, behind INTEGER NOT NULL, queue_off INTEGER NOT NULL, deadline INTEGER,
  contract TEXT NOT NULL, peer TEXT NOT NULL, number INTEGER NOT NULL, attempts INTEGER NOT NULL,
  PRIMARY KEY (service, partition, own, letter)
) WITHOUT ROWID;
CREATE INDEX parked_by_letter ON parked (letter);
CREATE INDEX parked_groups ON parked (service, exception, what, since, letter, due, queue_off, behind, deadline);
CREATE INDEX parked_for_a_person ON parked (service, since, letter) WHERE due IS NULL;
CREATE INDEX parked_by_queue ON parked (service, partition) WHERE queue_off;
CREATE INDEX parked_for_a_retry ON parked (service, since, letter) WHERE due IS NOT NULL;
CREATE TABLE timers (
  service TEXT NOT NULL, partition INTEGER NOT NULL, own BLOB NOT NULL, name TEXT NOT NULL, due INTEGER NOT NULL, contract TEXT NOT NULL,
  peer TEXT NOT NULL,
  PRIMARY KEY (service, partition, own, name)
) WITHOUT ROWID;
CREATE INDEX timers_by_time ON timers (service, due);
CREATE TABLE letters (
  service TEXT NOT NULL, partition INTEGER NOT NULL, at_offset INTEGER NOT NULL, letter TEXT NOT NULL, topic TEXT NOT NULL,
  offset INTEGER NOT NULL, reason TEXT NOT NULL, exception TEXT NOT NULL, message TEXT NOT NULL, conversation TEXT NOT NULL,
  from_initiator INTEGER NOT NULL, number INTEGER NOT NULL, what TEXT NOT NULL, at INTEGER NOT NULL, tool TEXT NOT NULL, code INTEGER NOT NULL,
  decided_by TEXT NOT NULL, decided_why TEXT NOT NULL, is_last INTEGER NOT NULL,
  PRIMARY KEY (service, partition, at_offset)
) WITHOUT ROWID;
CREATE INDEX letters_by_source ON letters (service, partition, topic, offset);
CREATE INDEX letters_by_name ON letters (letter);
CREATE INDEX letters_of_tools ON letters (service) WHERE tool <> '';
CREATE INDEX letters_by_dialog ON letters (conversation) WHERE conversation <> '';
CREATE TABLE open (
  service TEXT NOT NULL, partition INTEGER NOT NULL, topic TEXT NOT NULL, offset INTEGER NOT NULL,
  PRIMARY KEY (service, partition, topic, offset)
) WITHOUT ROWID;
CREATE TABLE events (
  at_offset INTEGER PRIMARY KEY, at INTEGER NOT NULL, name TEXT NOT NULL, service TEXT NOT NULL, conversation TEXT NOT NULL, dialog TEXT NOT NULL,
  by TEXT NOT NULL, fields TEXT NOT NULL
);
CREATE TABLE operators (key TEXT PRIMARY KEY, at_offset INTEGER NOT NULL, value TEXT NOT NULL);
CREATE TABLE metrics (
  minute INTEGER NOT NULL, service TEXT NOT NULL, contract TEXT NOT NULL, at_offset INTEGER NOT NULL, begun INTEGER, messages INTEGER,
  ended INTEGER, errored INTEGER, expired INTEGER, replied INTEGER, open INTEGER, backlog INTEGER, reply_p50 REAL, reply_p95 REAL,
  reply_p99 REAL, end_p50 REAL, end_p95 REAL, end_p99 REAL,
  PRIMARY KEY (minute, service, contract)
) WITHOUT ROWID;
CREATE INDEX metrics_by_offset ON metrics (at_offset);
CREATE INDEX operators_by_offset ON operators (at_offset);
CREATE INDEX events_of_dialog ON events (conversation) WHERE conversation <> '';
CREATE INDEX events_of_new_dialog ON events (dialog) WHERE dialog <> '';
CREATE INDEX events_by_name ON events (name, at_offset);
CREATE INDEX events_by_person ON events (at_offset) WHERE by <> '';
"""


_LARGEST = 2**63 - 1
_CACHE = 64 * 1024
"""Kibibytes of pages that a connection keeps. With SQLite's 2 MB, each new row of a large file reads pages that were there before."""
_LOG = 16_384
"""Number of pages in the write-ahead log (64 MB) at which SQLite copies them into the file. A page that changed often is copied once."""


def stored(value: object) -> object:
    """Return a value that SQLite can store: an integer of at most 64 bits. Records from outside may have any integer."""
    return max(-_LARGEST, min(value, _LARGEST)) if type(value) is int else value


class ReadModelFailed(LogError):
    """The file of the read model cannot be read or written. The message has its path and what to do."""


def path_of(kafka: Kafka, directory: Path | None = None) -> Path:
    """Return the path of the file for a namespace of a cluster. ``directory`` is by default a part of the cache directory.

    Raises:
        NoDirectory: the directory cannot be made or written.
    """
    return writable(cache_directory() / DIRECTORY if directory is None else directory, FIX) / file_name(kafka)


def file_name(kafka: Kafka) -> str:
    """Return the name of the file for a namespace of a cluster."""
    cluster = hashlib.sha256(kafka.bootstrap.encode()).hexdigest()[:16]
    return f"{cluster}.{kafka.namespace}.sqlite"


def damage(path: Path) -> str:
    """Return why SQLite cannot read the file; empty if it can, or if another process has the file locked. The file is not changed."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            ((found,),) = connection.execute("PRAGMA quick_check(1)")
    except sqlite3.OperationalError:
        return ""
    except sqlite3.DatabaseError as error:
        return str(error)
    return "" if found == "ok" else str(found)


class File:
    """An open file of the read model. Close it, or use it in a ``with`` block.

    Raises:
        ReadModelFailed: the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self.explained():
            self.connection = _connected(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a block in one transaction: all of its writes are in the file, or none is.

        Raises:
            ReadModelFailed: the file cannot be written.
        """
        with self.explained():
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
            except BaseException:
                self.connection.execute("ROLLBACK")
                raise
            self.connection.execute("COMMIT")

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn SQLite's errors about the file, its disk and its locks into errors that name the file.

        Raises:
            ReadModelFailed: the file cannot be read or written.
            sqlite3.DatabaseError: the content of the file is damaged.
        """
        try:
            yield
        except sqlite3.OperationalError as error:
            fix = (
                "another command has held it for long: try again when that command is done"
                if _is_locked(error)
                else FIX
            )
            raise ReadModelFailed(f"the read model {self.path} cannot be used: {error}; {fix}") from error

    def close(self) -> None:
        """Close the file."""
        self.connection.close()


def delete(path: Path) -> None:
    """Delete the file and what SQLite keeps beside it. The next projector makes it anew."""
    for name in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        name.unlink(missing_ok=True)


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY, isolation_level=None)
    try:
        path.chmod(0o600)  # the rows have the bodies of messages that wait
        _turn_log_on(connection)
        connection.execute("PRAGMA synchronous = NORMAL")  # the file is only a copy
        connection.execute(f"PRAGMA cache_size = -{_CACHE}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG}")
        _make(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _turn_log_on(connection: sqlite3.Connection) -> None:
    """Turn SQLite's write-ahead log on. In a new file this needs a lock, for which SQLite does not wait by itself."""
    for attempt in tenacity.Retrying(
        retry=tenacity.retry_if_exception(_is_locked),
        stop=tenacity.stop_after_delay(BUSY),
        wait=tenacity.wait_random(0.01, 0.05),
        reraise=True,
    ):
        with attempt:
            connection.execute("PRAGMA journal_mode = WAL")


def _is_locked(error: BaseException) -> bool:
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _make(connection: sqlite3.Connection) -> None:
    """Make the tables, unless this version has made them. Throw the tables of another version away."""
    if _version(connection) == VERSION:
        return
    connection.execute("BEGIN EXCLUSIVE")
    if _version(connection) != VERSION:  # another process may have made them meanwhile
        old = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        statements = [f'DROP TABLE "{name}"' for name in old]
        for statement in [*statements, *filter(str.strip, _TABLES.split(";")), f"PRAGMA user_version = {VERSION}"]:
            connection.execute(statement)
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection) -> int:
    ((found,),) = connection.execute("PRAGMA user_version")
    return int(found)
