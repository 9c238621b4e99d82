"""A directory on any file system that Spark can write to, through Hadoop's own client: the one way of the jobs to files."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from conversations.errors import DeclarationError
from spark_jobs.errors import SparkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_PATTERNS = set("{}[]*?\\")


class Directory:
    """A directory; names in it are relative, with ``/`` between their parts."""

    def __init__(self, spark: SparkSession, path: str, *, listed: bool = True) -> None:
        """Open a directory; nothing is made before something is written.

        Args:
            spark: the session.
            path: a path or URL.
            listed: its files are found by patterns, here or by Spark.

        Raises:
            SparkUnavailable: the session has no JVM of its own (Spark Connect).
            DeclarationError: the path of a listed directory has a character of patterns.
        """
        if listed and (found := sorted(_PATTERNS & set(path))):
            raise DeclarationError(f"{path!r}: the name of a directory cannot have any of {' '.join(found)}")
        jvm: Any = getattr(spark, "_jvm", None)
        if jvm is None:
            raise SparkUnavailable(
                "this job writes files itself, which Spark Connect cannot do: run it with spark-submit"
            )
        self._hadoop: Any = jvm.org.apache.hadoop.fs
        self._jvm: Any = jvm
        self._session: Any = spark.sparkContext
        self._root: Any = self._hadoop.Path(path)
        self._files: Any = self._root.getFileSystem(self._configuration)
        self.path = str(self._files.makeQualified(self._root).toString())

    def make(self) -> None:
        """Make the directory, if it is not there."""
        self._files.mkdirs(self._root)

    def exists(self, name: str) -> bool:
        """Say whether there is a file or folder."""
        return bool(self._files.exists(self._at(name)))

    def names(self, folder: str) -> list[str]:
        """List a folder, sorted; empty when it is not there."""
        path = self._at(folder)
        if not self._files.exists(path):
            return []
        return sorted(status.getPath().getName() for status in self._files.listStatus(path))

    def matching(self, pattern: str) -> list[str]:
        """List what matches a pattern, sorted: ``*`` stands for one part of a name."""
        found = self._files.globStatus(self._at(pattern)) or []
        start = len(self.path) + 1
        return sorted(status.getPath().toString()[start:] for status in found)

    def size(self, folder: str) -> int:
        """Return how many bytes a folder has."""
        return int(self._files.getContentSummary(self._at(folder)).getLength())

    def age(self, name: str, now: int) -> int:
        """Return for how many milliseconds nothing was added to a folder."""
        return int(now - self._files.getFileStatus(self._at(name)).getModificationTime())

    def read(self, name: str) -> str:
        """Read a file of text."""
        stream = self._files.open(self._at(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def create(self, name: str, text: str) -> bool:
        """Write a file of text, whole or not at all; False when a file of this name exists, or another process writes it now."""
        written = self._write_aside(name, text)
        try:
            self._exclusive.rename(self._at(written), self._at(name), self._no_options)
        except Exception as error:  # py4j wraps whatever Java throws
            self.delete(written)
            if "FileAlreadyExistsException" in str(error):
                return False
            raise
        return True

    def write(self, name: str, text: str) -> bool:
        """Write a new file of text, whole or not at all, for one writer at a time; False when it could not be put in its place.

        Unlike ``create`` it needs no more than each file system of Hadoop has.
        """
        written = self._write_aside(name, text)
        if self.move(written, name):
            return True
        self.delete(written)
        return False

    def move(self, name: str, to: str) -> bool:
        """Give a file or folder a name that nothing has; False when the file system did not."""
        return bool(self._files.rename(self._at(name), self._at(to)))

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with all that is in it."""
        self._files.delete(self._at(name), True)

    @property
    def _configuration(self) -> Any:
        return self._session._jsc.hadoopConfiguration()  # noqa: SLF001 - PySpark has no other way to it

    @cached_property
    def _exclusive(self) -> Any:
        """Hadoop's newer client, whose ``rename`` replaces nothing; some file systems lack it."""
        return self._hadoop.FileContext.getFileContext(self._root.toUri(), self._configuration)

    @property
    def _no_options(self) -> Any:
        rename = getattr(self._hadoop, "Options$Rename")
        return self._session._gateway.new_array(rename, 0)  # noqa: SLF001 - likewise

    def _write_aside(self, name: str, text: str) -> str:
        """Write a file of text under a hidden name in the same folder; return the name."""
        folder, slash, own = name.rpartition("/")
        aside = f"{folder}{slash}.{own}.{uuid4().hex}"
        stream = self._files.create(self._at(aside), False)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        return aside

    def _at(self, name: str) -> Any:
        return self._hadoop.Path(self._root, name)
