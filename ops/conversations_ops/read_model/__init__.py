"""The read model: a local copy of what operators ask about the dialogs of a namespace, so that no command reads whole topics each time.

Theory of operation. The file is an SQLite database of one namespace of one cluster. ``rows`` in it are the current rows of the state
topics, as Kafka's compaction would keep them. ``sides``, ``parked``, ``timers`` and ``open`` are derived from these rows, for
search and for sums.
``letters`` has the headers of the records in the dead-letter topics, and ``events`` the events, both as long as Kafka keeps the records.
``places`` has the next offset of each partition.

A ``Projector`` brings the file up to date before a question. It appends the new records of each partition, with the new offset, in one
transaction, and marks the sides of dialogs that they change. Then it derives the marked sides again. A kill at any moment loses nothing:
the offset, the rows and the marks are in the same transaction. Several processes may do it at once: records before the stored offset are
skipped.

The file is only a copy. It is thrown away and made anew if it is damaged, if another version wrote it, if a topic was created again, or if
it is so old that Kafka may have dropped the null records of deleted rows (``Periods.deletes_kept``).
"""
