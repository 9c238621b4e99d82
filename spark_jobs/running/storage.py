"""A directory on any file system that Spark can write to, through Hadoop's own client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from conversations.errors import DeclarationError
from spark_jobs.errors import SparkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_PATTERNS = set("{}[]*?\\")


class Directory:
    """A directory; names in it are relative, with ``/`` between their parts."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        """Open a directory; nothing is made before something is written.

        Raises:
            SparkUnavailable: the session has no JVM of its own (Spark Connect).
            DeclarationError: the path has a character that file systems of Hadoop take for a pattern.
        """
        if found := sorted(_PATTERNS & set(path)):
            raise DeclarationError(f"{path!r}: the name of a directory cannot have any of {' '.join(found)}")
        jvm: Any = getattr(spark, "_jvm", None)
        if jvm is None:
            raise SparkUnavailable(
                "this job writes files itself, which Spark Connect cannot do: run it with spark-submit"
            )
        self._hadoop: Any = jvm.org.apache.hadoop.fs
        self._jvm: Any = jvm
        context: Any = spark.sparkContext
        configuration = context._jsc.hadoopConfiguration()  # noqa: SLF001 - PySpark has no other way to it
        self._root: Any = self._hadoop.Path(path)
        self._files: Any = self._root.getFileSystem(configuration)
        self._context: Any = self._hadoop.FileContext.getFileContext(self._root.toUri(), configuration)
        rename = getattr(self._hadoop, "Options$Rename")
        self._no_options: Any = context._gateway.new_array(rename, 0)  # noqa: SLF001 - likewise
        self.path = str(self._files.makeQualified(self._root).toString())

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
        """Write a file of text, whole or not at all; False when there is one of this name."""
        folder, _, own = name.rpartition("/")
        written = self._at(f"{folder}/.{own}.{uuid4().hex}")
        stream = self._files.create(written, False)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        try:
            self._context.rename(written, self._at(name), self._no_options)
        except Exception as error:  # py4j wraps whatever Java throws
            self._files.delete(written, False)
            if "FileAlreadyExistsException" in str(error):
                return False
            raise
        return True

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with all that is in it."""
        self._files.delete(self._at(name), True)

    def _at(self, name: str) -> Any:
        return self._hadoop.Path(self._root, name)
