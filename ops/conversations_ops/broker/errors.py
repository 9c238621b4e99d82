"""Errors of the embedded broker. Every message says how to fix the cause.

BrokerError
 ├─ JavaMissing       no Java at all
 ├─ JavaTooOld        Java found, but older than Kafka needs
 ├─ ExtraMissing      the packages that fetch jars are not installed
 ├─ DownloadFailed    the jars could not be fetched
 ├─ JarCorrupted      a jar differs from the lock file, even after a second download
 ├─ PortTaken         the port cannot be used; mostly another program listens on it
 ├─ DiskFull          no room for the jars or the data
 ├─ DataNotOurs       this program did not make the data directory, or made it with another Kafka version
 ├─ DataInUse         another broker works on the data directory
 ├─ StartFailed       Kafka ended or did not answer while starting; the message has the last lines of its log
 ├─ MetadataMisread   Kafka misread its own metadata while starting; the next start usually succeeds
 ├─ EndedByItself     Kafka ended, although it was not told to stop
 ├─ NameTaken         a broker of this name is running
 ├─ NotRunning        no broker of this name is running
 └─ NotTheBroker      the process in the record of a broker is another program
"""

from __future__ import annotations

from pathlib import Path


class BrokerError(Exception):
    """The embedded broker cannot carry out a request.

    ``message`` says what failed and how to fix it. ``log_path`` is the broker's log; None if there is no log yet.
    """

    def __init__(self, message: str, *, log_path: Path | None = None) -> None:
        super().__init__(f"{message}\nThe broker's log: {log_path}" if log_path else message)
        self.message = message
        self.log_path = log_path


class JavaMissing(BrokerError):
    """No Java was found."""


class JavaTooOld(BrokerError):
    """Every Java found is older than Kafka needs."""


class ExtraMissing(BrokerError):
    """The packages that fetch jars are not installed. They are an extra, because no service needs them."""

    def __init__(self) -> None:
        super().__init__("Kafka's jars cannot be fetched: run pip install 'kafka-dialogs[broker]'")


class DownloadFailed(BrokerError):
    """The jars could not be fetched."""


class JarCorrupted(BrokerError):
    """The checksum of a downloaded jar differs from the checksum in the lock file."""


class PortTaken(BrokerError):
    """The wanted port cannot be used, mostly because another program listens on it."""


class DiskFull(BrokerError):
    """No room is left on a disk."""


class DataNotOurs(BrokerError):
    """This program did not make the data directory, or made it with another Kafka version."""


class DataInUse(BrokerError):
    """Another broker works on the data directory."""


class StartFailed(BrokerError):
    """While starting, Kafka ended, or did not answer in time."""


class MetadataMisread(BrokerError):
    """While starting, Kafka reported a good record of its metadata as corrupt. The next start usually succeeds."""


class NameTaken(BrokerError):
    """A broker of this name is running already."""


class EndedByItself(BrokerError):
    """Kafka ended, although it was not told to stop."""


class NotRunning(BrokerError):
    """No broker of this name is running."""


class NotTheBroker(BrokerError):
    """The process in the record of a broker is another program, not a broker that this program started."""


def by_name(kind: str) -> type[BrokerError]:
    """Return the error class with this name, or BrokerError for an unknown name. Errors of other processes are raised with it."""
    return next((each for each in BrokerError.__subclasses__() if each.__name__ == kind), BrokerError)
