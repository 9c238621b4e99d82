"""The log of an archive: a chain of commits. Each commit is a file that names all parts, and the offsets where reading continues.

The file name is the number of the commit. A commit is created whole or not at all. If two writers create a commit with the
same number, only one succeeds. Files that no commit names, for example after a crash, are not part of the archive.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from conversations.kafka.offsets import Extent, Place
from spark_jobs.errors import CheckpointError, SourceError

VERSION = 1
KEPT = 50
"""Number of old commits that are kept, for people to read."""
COMMITS, DATA = "commits", "data"


class Part(NamedTuple):
    """The files that one batch wrote for one service and day."""

    set_aside: bool
    service: str
    day: str
    batch: str
    bytes: int

    @property
    def path(self) -> str:
        """Path of the part in the archive."""
        return part_path(str(self.set_aside).lower(), self.service, self.day, self.batch)

    @property
    def place(self) -> tuple[bool, str, str]:
        """Kind, service and day. Compaction merges all parts that have the same place."""
        return self.set_aside, self.service, self.day


def part_path(set_aside: str, service: str, day: str, batch: str) -> str:
    """Return the path of a part's folder. An argument ``*`` stands for any value."""
    return f"{DATA}/set_aside={set_aside}/of={service}/day={day}/batch={batch}"


def part_at(path: str, size: int) -> Part:
    """Return the part in a folder; ``size`` is its size in bytes."""
    set_aside, service, day, batch = (it.partition("=")[2] for it in path.split("/")[1:])
    return Part(set_aside == "true", service, day, batch, size)


@dataclass(frozen=True)
class Commit:
    """The state of an archive after one batch or compaction."""

    number: int
    namespace: str
    service: str
    """Service whose dialogs are archived; empty: all services."""
    made_at: str
    next: Mapping[str, tuple[int, ...]]
    """First offset that is not archived: for each topic, one offset for each partition."""
    topic_ids: Mapping[str, str]
    parts: tuple[Part, ...] = ()
    holes: tuple[str, ...] = ()
    """Offsets whose records Kafka dropped before they were archived. A person has accepted this loss."""

    def to_json(self) -> str:
        """Write the commit as JSON."""
        plain = asdict(self) | {"parts": [it._asdict() for it in self.parts]}
        return json.dumps({"version": VERSION, **plain}, indent=1) + "\n"


def commit_of(text: str) -> Commit:
    """Read a commit.

    Raises:
        CheckpointError: the text is not a commit, or a commit of another version.
    """
    try:
        fields = json.loads(text)
        if fields.pop("version") != VERSION:
            raise CheckpointError("the archive was written by another version of this program")
        fields["next"] = {topic: tuple(map(int, offsets)) for topic, offsets in fields["next"].items()}
        fields["parts"] = tuple(Part(**it) for it in fields["parts"])
        fields["holes"] = tuple(fields["holes"])
        return Commit(**fields)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(f"a commit of the archive cannot be read: {error!r}") from error


def commit_name(number: int) -> str:
    """Name the file of a commit."""
    return f"{COMMITS}/{number:010d}.json"


def check_free(path: str, names: Iterable[str]) -> None:
    """Check that a directory without a commit has no other files.

    Raises:
        CheckpointError: the directory has other files, or it is a file.
    """
    own = {COMMITS, DATA, "lost+found"}  # lost+found is in the root of many new volumes
    others = sorted(name for name in names if name not in own and not name.startswith("."))
    if others:
        raise CheckpointError(
            f"{path} is no archive, and there is {others[0]!r} in it: choose a new or an empty directory"
        )


def check_same(commit: Commit, namespace: str, service: str) -> None:
    """Refuse to add dialogs of another namespace or service to an archive.

    Raises:
        CheckpointError: the archive belongs to another namespace or service.
    """
    if (commit.namespace, commit.service) != (namespace, service):
        of = f"service {commit.service!r}" if commit.service else "all services"
        raise CheckpointError(
            f"this archive has dialogs of {of} in namespace {commit.namespace!r}, and accepts no other dialogs: choose another directory"
        )


class Stretch(NamedTuple):
    """The records of a partition that one batch reads."""

    first: int
    end: int


def upcoming(
    commit: Commit | None, extents: Mapping[Place, Extent], most: int, *, accept_holes: bool
) -> tuple[dict[Place, Stretch], tuple[str, ...]]:
    """Choose the stretches of the next batch, and find the holes before them.

    The stretches have about ``most`` records, spread over all partitions. There are no stretches if all records are archived
    and there is no hole. A hole is a range of offsets whose records Kafka dropped before they were archived.

    Raises:
        SourceError: Kafka dropped records before they were archived and holes are not accepted, or a topic was created again.
    """
    share = max(1, most // max(1, len(extents)))
    stretches, holes = {}, []
    for place, extent in sorted(extents.items()):
        first = _first(commit, place, extent)
        if first < extent.first:
            if commit is not None and place[0] in commit.next:
                holes.append(f"{place[0]} partition {place[1]}, offsets {first} to {extent.first - 1}")
            first = extent.first
        stretches[place] = Stretch(first, max(first, min(extent.end, first + share)))
    if holes and not accept_holes:
        raise SourceError(
            f"Kafka has dropped records that were not archived yet: {'; '.join(holes)}. "
            "To archive what is left, and note the hole: --accept-holes"
        )
    return ({} if all(it.first == it.end for it in stretches.values()) and not holes else stretches), tuple(holes)


def _first(commit: Commit | None, place: Place, extent: Extent) -> int:
    topic, number = place
    if commit is None or topic not in commit.next:
        return 0
    offsets = commit.next[topic]
    if commit.topic_ids[topic] != extent.topic_id or number >= len(offsets) or offsets[number] > extent.end:
        raise SourceError(
            f"topic {topic} is not the topic that was archived: it was deleted and made anew, or has other partitions. "
            "Archive the new topic into another directory"
        )
    return offsets[number]


def spark_offsets(stretches: Mapping[Place, Stretch]) -> tuple[str, str]:
    """Return the starts and the ends of stretches, in the JSON of Spark's Kafka source."""
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for (topic, number), stretch in stretches.items():
        starts.setdefault(topic, {})[str(number)] = stretch.first
        ends.setdefault(topic, {})[str(number)] = stretch.end
    return json.dumps(starts), json.dumps(ends)


def after(commit: Commit, stretches: Mapping[Place, Stretch], topic_ids: Mapping[str, str]) -> Commit:
    """Return the commit that follows ``commit`` when the stretches are archived. The caller adds the new parts."""
    ends: dict[str, list[int]] = {}
    for (topic, _), stretch in sorted(stretches.items()):
        ends.setdefault(topic, []).append(stretch.end)
    following = dict(commit.next) | {topic: tuple(offsets) for topic, offsets in ends.items()}
    return replace(commit, number=commit.number + 1, next=following, topic_ids={**commit.topic_ids, **topic_ids})


def to_compact(parts: Iterable[Part]) -> dict[tuple[bool, str, str], list[Part]]:
    """Return the parts of each service and day that has parts of several batches."""
    found: dict[tuple[bool, str, str], list[Part]] = {}
    for part in parts:
        found.setdefault(part.place, []).append(part)
    return {place: mine for place, mine in found.items() if len(mine) > 1}


def spare_parts(parts: Iterable[Part]) -> int:
    """Return the number of parts that compaction would save."""
    return sum(len(mine) - 1 for mine in to_compact(parts).values())


def number_of(batch: str) -> int:
    """Return the number of the commit for which the files of a batch were written."""
    return int(batch.partition("-")[0])


def figures(commit: Commit) -> dict[str, Any]:
    """Return the sizes of an archive, for people and programs."""
    return {
        "commit": commit.number, "parts": len(commit.parts), "bytes": sum(it.bytes for it in commit.parts),
        "days": sorted({it.day for it in commit.parts}), "services": sorted({it.service for it in commit.parts}),
        "holes": list(commit.holes),
    }  # fmt: skip
