"""Files on any file system of Hadoop's, written whole or not at all."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from conversations.errors import DeclarationError
from spark_jobs.running.storage import Directory


@pytest.mark.parametrize("name", ["commit", "commits/1.json"])
@pytest.mark.parametrize("verb", ["create", "write"])
def test_a_file_is_written_once_and_leaves_nothing_beside(
    spark: SparkSession, tmp_path: Path, name: str, verb: str
) -> None:
    directory = Directory(spark, str(tmp_path / "made"))
    assert not directory.exists(name)
    assert getattr(directory, verb)(name, "first")
    assert not directory.create(name, "second")
    assert directory.read(name) == "first"
    assert [it.name for it in (tmp_path / "made" / name).parent.iterdir() if it.suffix != ".crc"] == [Path(name).name]


def test_a_folder_is_moved_to_a_name_that_nothing_has(spark: SparkSession, tmp_path: Path) -> None:
    directory = Directory(spark, str(tmp_path))
    directory.create("old/file", "text")
    assert directory.move("old", "new")
    assert (directory.names("."), directory.read("new/file")) == (["new"], "text")
    directory.delete("new")
    assert directory.names("new") == []


def test_only_a_directory_whose_files_are_listed_is_refused_a_pattern(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"cannot have any of \[ \]"):
        Directory(spark, str(tmp_path / "[a]"))
    directory = Directory(spark, str(tmp_path / "[a]"), listed=False)
    assert directory.create("file", "text")
    assert (tmp_path / "[a]" / "file").read_text(encoding="utf-8") == "text"


@pytest.mark.parametrize(("name", "folder"), [("commit", "."), ("commits/1.json", "commits")])
def test_a_file_is_made_ready_in_its_own_folder(spark: SparkSession, tmp_path: Path, name: str, folder: str) -> None:
    directory = Directory(spark, str(tmp_path))
    ready = directory._write_aside(name, "text")
    assert directory.names(folder) == [Path(ready).name]
