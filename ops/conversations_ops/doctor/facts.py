"""What the doctor has found on a cluster, in a namespace and on a machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from conversations.config import Periods
from conversations.kafka.cluster import Cluster, FoundTopic
from conversations.protocol.declarations import ServiceDeclaration
from conversations.stores.inspection import Copy

Place = tuple[str, int]
"""A topic and one of its partitions."""


@dataclass(frozen=True)
class KnownService:
    """A service of the catalog."""

    declaration: ServiceDeclaration
    """Its declaration. The lifetime is 0 if the service was not given as a target, because the catalog does not have it."""
    partitions: int
    """Partition count of its topics, by the catalog."""


@dataclass(frozen=True)
class Namespace:
    """The services and topics of a namespace."""

    name: str
    services: Mapping[str, KnownService] = field(default_factory=dict)
    """The services of the catalog, by name."""
    has_catalog: bool = True
    topics: Mapping[str, FoundTopic] = field(default_factory=dict)
    """The topics that exist and belong to the namespace, and the plain topics of its services that exist."""
    hidden: frozenset[str] = frozenset()
    """Topics that this client may not describe. It is not known whether they exist."""
    open_since: Mapping[Place, int] = field(default_factory=dict)
    """Since when a partition has an open transaction, in microseconds since 1970."""
    ahead: Mapping[Place, int] = field(default_factory=dict)
    """Log time of a record that is dated after ``Machine.now`` by more than ``Machine.clock_off``, in microseconds since 1970."""
    clocks_off: Mapping[str, float] = field(default_factory=dict)
    """Last differences that workers have reported between their machine's clock and log time, in seconds, by the name of the service."""


@dataclass(frozen=True)
class LocalPath:
    """A file or a directory of this machine."""

    path: Path
    mode: int = 0o700
    """Its permissions, without its type."""
    is_writable: bool = True
    has_secrets: bool = False
    """True if it has a password or a private key."""


@dataclass(frozen=True)
class Disk:
    """The file system of a directory."""

    path: Path
    free: int
    """Free bytes for this user."""


@dataclass(frozen=True)
class Machine:
    """This machine, and the settings that were given here."""

    versions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Versions of ``python``, ``librdkafka``, ``rocksdict`` and ``java``. A version that could not be found is left out."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of librdkafka by name, with passwords."""
    refused: str = ""
    """Why librdkafka refuses the clients of a worker with these settings; empty if it makes them."""
    settings_file: LocalPath | None = None
    stores: tuple[LocalPath, ...] = ()
    """Directories of local copies: each directory itself, and each one below it that has copies."""
    copies: tuple[Copy, ...] = ()
    read_model: LocalPath | None = None
    read_model_damage: str = ""
    disks: tuple[Disk, ...] = ()
    open_files: int = 1 << 20
    """How many files a process may have open."""
    now: int = 0
    """The machine's clock, in microseconds since 1970."""
    clock_off: timedelta = timedelta(seconds=10)
    """Largest allowed difference between the machine's clock and log time."""


@dataclass(frozen=True)
class Facts:
    """Everything that the checks may use."""

    bootstrap: str
    cluster: Cluster
    namespace: Namespace
    machine: Machine
    periods: Periods
    roles: tuple[str, ...] = ()
    """Roles that this client must have."""
    targets: tuple[str, ...] = ()
    """The services that were given, as ``module:attribute``."""
    not_seen: tuple[str, ...] = ()
    """What could not be looked at, each with the reason."""
