"""Looks at this machine: versions, settings, local copies, the read model and disks. It makes and changes nothing."""

from __future__ import annotations

import os
import re
import resource
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from stat import S_IMODE

from conversations.config import Kafka, WorkerSettings
from conversations.kafka.client_settings import client_version, refusal_of_worker
from conversations.stores.inspection import Copy, look_at
from conversations_ops.broker.java import candidates, major_version
from conversations_ops.cache import NoDirectory, cache_path
from conversations_ops.doctor.facts import Disk, LocalPath, Machine
from conversations_ops.read_model.file import DIRECTORY, damage, file_name
from conversations_ops.settings.file import VARIABLE
from conversations_ops.settings.given import OPTION, Given

_SECRET = re.compile(r"password|secret|key\.pem|jaas")
_DEPTH = 4
"""A local copy is at most so many directories below the directory of its service: service, slot and partition."""
_COPY = "CURRENT"
"""File that every directory of RocksDB has."""


def look_here(kafka: Kafka, given: Given, settings: WorkerSettings, stores: Sequence[Path] = ()) -> Machine:
    """Collect what is known about this machine.

    Args:
        kafka: the cluster and the namespace.
        given: the settings that were given.
        settings: the settings of a worker that result from them.
        stores: directories of local copies. Without any, the directory in the cache is looked at.
    """
    roots, model = [*stores], None
    with suppress(NoDirectory):
        cache = cache_path()
        roots = roots or [cache / "state" / kafka.namespace]
        model = _local(cache / DIRECTORY / file_name(kafka))
    paths = [*dict.fromkeys(it for root in roots for it in (root, *_copies_below(root)))]
    return Machine(
        versions=dict(_versions()),
        settings={name: str(value) for name, value in kafka.settings.items()},
        refused=refusal_of_worker(kafka),
        settings_file=_settings_file(given),
        stores=tuple(found for path in paths if (found := _local(path)) is not None),
        copies=tuple(map(_looked_at, (path for path in paths if (path / _COPY).exists()))),
        read_model=model,
        read_model_damage="" if model is None else damage(model.path),
        disks=tuple(_disks([*roots, *([] if model is None else [model.path.parent])])),
        open_files=_open_files(),
        now=time.time_ns() // 1_000,
        clock_off=settings.clock_off,
    )  # fmt: skip


def _versions() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "python", tuple(sys.version_info[:3])
    yield "librdkafka", client_version()
    with suppress(PackageNotFoundError):
        yield "rocksdict", tuple(map(int, re.findall(r"\d+", version("rocksdict"))))
    found = [major for path, _ in candidates(os.environ) if (major := major_version(path)) is not None]
    if found:
        yield "java", (max(found),)


def _local(path: Path) -> LocalPath | None:
    try:
        mode = S_IMODE(path.stat().st_mode)
    except OSError:
        return None
    return LocalPath(path, mode, is_writable=os.access(path, os.W_OK | (os.X_OK if path.is_dir() else 0)))


def _settings_file(given: Given) -> LocalPath | None:
    path = os.environ.get(VARIABLE, "")
    found = _local(Path(path)) if path else None
    secret = any(line.place != OPTION and _SECRET.search(line.name) for line in given.clients)
    return None if found is None else LocalPath(found.path, found.mode, found.is_writable, has_secrets=secret)


def _copies_below(root: Path) -> Iterator[Path]:
    for directory, below, files in os.walk(root):
        path = Path(directory)
        if len(path.relative_to(root).parts) >= _DEPTH:
            below.clear()
        if _COPY in files:
            below.clear()
            yield path
        below.sort()


def _looked_at(path: Path) -> Copy:
    try:
        return look_at(path)
    except OSError as error:  # it may belong to another user
        return Copy(path, damage=str(error))


def _disks(paths: Iterable[Path]) -> Iterator[Disk]:
    """Yield the file system of each path, once. The nearest directory that exists counts."""
    seen = set()
    for path in paths:
        there = next((it for it in (path.absolute(), *path.absolute().parents) if it.exists()), None)
        with suppress(OSError):
            if there is not None and (device := there.stat().st_dev) not in seen:
                seen.add(device)
                yield Disk(there, shutil.disk_usage(there).free)


def _open_files() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft
