"""A directory on any file system that Spark can write to. Jobs list, read, write and rename its files through Hadoop's client."""

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
    """A directory. Names in it are relative, with ``/`` between their parts."""

    def __init__(self, spark: SparkSession, path: str, *, listed: bool = True) -> None:
        """Open a directory. It is created when something is first written to it.

        Args:
            spark: the session.
            path: a path or URL.
            listed: True if this class or Spark finds files of the directory by patterns.

        Raises:
            SparkUnavailable: the session has no JVM of its own (Spark Connect).
            DeclarationError: the path of a listed directory has a pattern character such as ``*``.
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
        """Create the directory if it does not exist."""
        self._files.mkdirs(self._root)

    def exists(self, name: str) -> bool:
        """Return True if a file or folder has this name."""
        return bool(self._files.exists(self._at(name)))

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder; empty if the folder does not exist."""
        path = self._at(folder)
        if not self._files.exists(path):
            return []
        return sorted(status.getPath().getName() for status in self._files.listStatus(path))

    def matching(self, pattern: str) -> list[str]:
        """Return the sorted names that match a pattern. ``*`` stands for any text between two ``/``."""
        found = self._files.globStatus(self._at(pattern)) or []
        start = len(self.path) + 1
        return sorted(status.getPath().toString()[start:] for status in found)

    def size(self, folder: str) -> int:
        """Return the number of bytes in a folder."""
        return int(self._files.getContentSummary(self._at(folder)).getLength())

    def age(self, name: str, now: int) -> int:
        """Return the milliseconds from the last change of a folder to ``now``."""
        return int(now - self._files.getFileStatus(self._at(name)).getModificationTime())

    def read(self, name: str) -> str:
        """Read a text file."""
        stream = self._files.open(self._at(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def create(self, name: str, text: str) -> bool:
        """Write a text file, whole or not at all. Return False if the file exists, or another process creates it at the same time."""
        written = self._write_aside(name, text)
        try:
            self._exclusive.rename(self._at(written), self._at(name), self._no_options)
        except Exception as error:  # py4j wraps every exception of Java
            self.delete(written)
            if "FileAlreadyExistsException" in str(error):
                return False
            raise
        return True

    def write(self, name: str, text: str) -> bool:
        """Write a new text file, whole or not at all. Return False if it was not written.

        The text is first written to a hidden file. Then this file is renamed. The result is False if the renaming failed. Only one
        process may write at a time. Unlike ``create``, this method works on every file system of Hadoop.
        """
        written = self._write_aside(name, text)
        if self.move(written, name):
            return True
        self.delete(written)
        return False

    def move(self, name: str, to: str) -> bool:
        """Rename a file or folder to an unused name. Return False if the file system did not rename it."""
        return bool(self._files.rename(self._at(name), self._at(to)))

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with all its contents."""
        self._files.delete(self._at(name), True)

    @property
    def _configuration(self) -> Any:
        return self._session._jsc.hadoopConfiguration()  # noqa: SLF001 - PySpark has no other way to it

    @cached_property
    def _exclusive(self) -> Any:
        """Hadoop's newer client, whose ``rename`` replaces no file. Some file systems do not support this client."""
        return self._hadoop.FileContext.getFileContext(self._root.toUri(), self._configuration)

    @property
    def _no_options(self) -> Any:
        rename = getattr(self._hadoop, "Options$Rename")
        return self._session._gateway.new_array(rename, 0)  # noqa: SLF001 - likewise

    def _write_aside(self, name: str, text: str) -> str:
        """Write a text file under a hidden name in the same folder; return the name."""
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
