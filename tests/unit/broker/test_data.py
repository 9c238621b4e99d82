"""Data directories: ours are used again, everybody else's are left alone."""

import json
from pathlib import Path

import pytest

from conversations_ops.broker import data
from conversations_ops.broker.data import check_room, needs_format, new_cluster_id, read_cluster_id, write_marker
from conversations_ops.broker.errors import DataNotOurs, DiskFull
from conversations_ops.broker.server import KAFKA_VERSION, Layout


def formatted(directory: Path) -> Layout:
    layout = Layout(directory)
    layout.logs.mkdir(parents=True)
    (layout.logs / "meta.properties").write_text("#\nnode.id=1\nversion=1\ncluster.id=abc\n")
    return layout


def test_a_new_or_empty_directory_is_to_be_formatted(tmp_path: Path) -> None:
    assert needs_format(Layout(tmp_path))
    assert needs_format(Layout(tmp_path / "new"))


def test_a_directory_of_this_version_is_used_as_it_is(tmp_path: Path) -> None:
    layout = formatted(tmp_path)
    write_marker(layout)
    assert not needs_format(layout)
    assert read_cluster_id(layout) == "abc"


def test_a_start_that_died_before_formatting_is_repeated(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    write_marker(layout)
    assert needs_format(layout)


def test_another_kafka_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    layout = formatted(tmp_path)
    layout.marker.write_text(json.dumps({"kafka": "4.9.0"}))
    with pytest.raises(DataNotOurs, match=rf"Kafka 4\.9\.0; this is Kafka {KAFKA_VERSION}"):
        needs_format(layout)


def test_an_unreadable_marker_is_refused(tmp_path: Path) -> None:
    layout = formatted(tmp_path)
    layout.marker.write_text("{")
    with pytest.raises(DataNotOurs, match="unknown version"):
        needs_format(layout)


def test_somebody_elses_broker_and_somebodys_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataNotOurs, match="not started by this program"):
        needs_format(formatted(tmp_path / "broker"))
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(DataNotOurs, match="not empty"):
        needs_format(Layout(tmp_path))


def test_a_nearly_full_disk_is_refused_before_kafka_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_room(tmp_path)
    monkeypatch.setattr(data, "LEAST_FREE", 1 << 62)
    with pytest.raises(DiskFull, match="another disk"):
        check_room(tmp_path)


def test_cluster_ids_have_kafkas_form() -> None:
    made = [new_cluster_id() for _ in range(500)]
    assert all(len(each) == 22 for each in made)
    assert not any(each.startswith("-") for each in made), "Kafka's own tools take it for an option"
