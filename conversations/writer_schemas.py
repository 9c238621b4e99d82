"""Records of newer releases: their schemas come from the catalog, and they are translated into the schemas of this release.

A newer release writes its schemas to the catalog before it writes its first record (``conversations apply``). A record with an unknown
fingerprint makes the worker read the catalog, at most once per step. A translated record has the bytes that this release would have written.
Fields that only the newer release knows are left out.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping

from conversations.errors import InDoubt, LogError, UndecodableRecord
from conversations.protocol import command, envelope, envelope_avro
from conversations.protocol.registry import MARKER, Registry
from conversations.protocol.seals import associated_in

log = logging.getLogger("conversations.worker")

SCHEMA_CHARACTERS = 64_000
"""Maximum number of characters of a schema that is read from the catalog."""


class WriterSchemas:
    """The schemas with which records may be written: those of this package, and those of the catalog.

    Args:
        look: reads the catalog.
        schemas: returns the schemas of the catalog as it was last read: the text of each schema by its fingerprint in hex.
    """

    def __init__(self, look: Callable[[], None], schemas: Callable[[], Mapping[str, str]]) -> None:
        self._look, self._schemas = look, schemas
        self._looked = False
        self._registry = Registry()
        self._seen: set[str] = set()

    def begin_step(self) -> None:
        """Begin a step, in which the catalog may be read again."""
        self._looked = False

    def envelope(self, value: bytes) -> bytes:
        """Return an envelope in the schema of this release.

        Raises:
            UndecodableRecord: the bytes are no envelope of a known schema.
            InDoubt: the schema is not known, and the catalog cannot be read.
        """
        if value.startswith(envelope_avro.CURRENT.head):
            return value
        self._know(value)
        return envelope.encode(envelope.decode(value, self._registry))

    def associated(self, key: bytes, value: bytes) -> bytes:
        """Return the associated data of a sealed envelope of another release, which ``envelope`` has read before.

        Raises:
            UndecodableRecord: the bytes are no envelope of a known schema.
        """
        return associated_in(key, value, self._registry)

    def command(self, value: bytes) -> bytes:
        """Return a command in the schema of this release.

        Raises:
            UndecodableRecord: the bytes are no command of a known schema, or the command has an operation that this release does not know.
            InDoubt: the schema is not known, and the catalog cannot be read.
        """
        if value.startswith(command.CURRENT.head):
            return value
        self._know(value)
        return command.encode_command(command.decode_command(value, self._registry))

    def _know(self, value: bytes) -> None:
        """Read the catalog if the schema of a record is not known.

        Raises:
            InDoubt: the catalog cannot be read. The worker joins again, and reads the record again.
        """
        # Bytes without the marker have no schema that could be looked up.
        if self._looked or not value.startswith(MARKER):
            return
        try:
            self._registry.writer(value)
        except UndecodableRecord:
            self._looked = True
            try:
                self._look()
            except LogError as error:
                # If the record were set aside, a message of a newer release would be missing from its dialog. So it is read again.
                raise InDoubt(f"a record has an unknown schema, and the catalog cannot be read: {error}") from error
            self._learn()

    def _learn(self) -> None:
        """Register the schemas of the catalog that are not registered yet. A schema that cannot be used is left out with a warning."""
        for name, text in self._schemas().items():
            if name in self._seen:
                continue
            self._seen.add(name)
            try:
                if len(text) > SCHEMA_CHARACTERS:
                    raise ValueError(f"it has {len(text)} characters, more than {SCHEMA_CHARACTERS}")
                self._registry.register(json.loads(text))
            except (ValueError, TypeError, AttributeError, RecursionError) as error:
                log.warning("schema %.80s of the catalog is left out: %s", name, error)
