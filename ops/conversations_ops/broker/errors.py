"""What can go wrong with the embedded broker; every message names the fix.

BrokerError
 ├─ JavaMissing       no Java at all
 ├─ JavaTooOld        Java found, but older than Kafka needs
 ├─ ExtraMissing      the packages that fetch jars are not installed
 ├─ DownloadFailed    the jars could not be fetched
 ├─ JarCorrupted      a jar is not the one our lock names, also after a second download
 ├─ PortTaken         something else listens on the wanted port
 ├─ DiskFull          no room for the jars or the data
 ├─ DataNotOurs       the data directory belongs to something else, or to another Kafka version
 ├─ DataInUse         another broker works on the data directory
 ├─ StartFailed       Kafka ended or kept silent; its last log lines are in the message
 ├─ MetadataMisread   Kafka misread its own metadata while starting, and can when started again
 ├─ EndedByItself     Kafka ended while it should have served
 ├─ NameTaken         a broker of this name is running
 └─ NotRunning        no broker of this name is running
"""

from __future__ import annotations

from pathlib import Path


class BrokerError(Exception):
    """The embedded broker cannot carry out a request.

    ``message`` says what and how to mend it; ``log_path`` is the broker's log when it got as far as having one.
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
    """The packages that fetch jars are not installed: they are an extra, as no service needs them."""

    def __init__(self) -> None:
        super().__init__("Kafka's jars cannot be fetched: run pip install 'kafka-dialogs[broker]'")


class DownloadFailed(BrokerError):
    """The jars could not be fetched."""


class JarCorrupted(BrokerError):
    """A downloaded jar is not the one our lock names."""


class PortTaken(BrokerError):
    """Something else listens on the wanted port."""


class DiskFull(BrokerError):
    """No room is left on a disk."""


class DataNotOurs(BrokerError):
    """The data directory belongs to something else, or to another Kafka version."""


class DataInUse(BrokerError):
    """Another broker works on the data directory."""


class StartFailed(BrokerError):
    """Kafka ended, or did not answer in time, while starting."""


class MetadataMisread(BrokerError):
    """Kafka took a record of its metadata for corrupt while it started; the next start reads it."""


class NameTaken(BrokerError):
    """A broker of this name is running already."""


class EndedByItself(BrokerError):
    """Kafka ended while it should have served."""


class NotRunning(BrokerError):
    """No broker of this name is running."""


class NotTheBroker(BrokerError):
    """A record names a process that is no broker of this program."""


def by_name(kind: str) -> type[BrokerError]:
    """The error class of that name, BrokerError for an unknown one; to pass errors between processes."""
    return next((each for each in BrokerError.__subclasses__() if each.__name__ == kind), BrokerError)
