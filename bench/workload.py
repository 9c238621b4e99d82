"""The messages that every contender handles, and the topics that it uses."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self
from uuid import UUID

PARTITIONS = 4
BATCH = 5_000
BODY_BYTES = 100


@dataclass(frozen=True)
class Workload:
    """The messages of a run. They go to the dialogs in turn, and each must be answered once."""

    messages: int = 300_000
    dialogs: int = 3_000
    body_bytes: int = BODY_BYTES
    partitions: int = PARTITIONS
    batch: int = BATCH

    def record_keys(self) -> list[bytes]:
        """Return the record key of each dialog: its conversation id as text. The ids are spread over the space of ids."""
        return [
            str(UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128)).encode()
            for number in range(self.dialogs)
        ]


@dataclass(frozen=True)
class Job:
    """One run of one contender, in the form in which its process gets it."""

    contender: str
    bootstrap: str
    space: str
    """First part of the names of this run's own topics."""
    directory: str
    """An empty directory for local state."""
    workload: Workload
    concurrency: int = 16
    """Maximum number of handlers that run at the same time, if the contender has handlers."""
    profile: bool = False

    @property
    def source(self) -> str:
        """The topic that is read, unless the contender has topics of its own."""
        return f"{self.space}.in"

    @property
    def target(self) -> str:
        """The topic of the replies, unless the contender has topics of its own."""
        return f"{self.space}.out"

    @property
    def changelog(self) -> str:
        """The topic of the state, unless the contender has topics of its own."""
        return f"{self.space}.changelog"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        fields = json.loads(text)
        return cls(**{**fields, "workload": Workload(**fields["workload"])})
