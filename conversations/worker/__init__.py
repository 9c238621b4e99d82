"""The worker: it owns partitions of a service's queue, and handles the records in them.

``worker.Worker`` works in steps. One step is one transaction:

1. **Poll.** The worker reads records of the queue and of the commands topic. Kafka may assign or revoke partitions here (``assignment``,
   ``restoring``).
2. **Route** (``routing``, ``intake``). Each record is decoded, checked, and put into the lane of its conversation group as an item.
   Endpoints whose deadline has passed get an item too (``Partition.wake``).
3. **Run** (``dispatch``). Each lane with items gets a run, which works through the items one by one. An envelope goes to its endpoint
   (``inbound``; ``strangers`` if the dialog has no endpoint here). Then a handler is called, and its requests are carried out (``outbound``).
   Commands are carried out by ``dialog_commands``, ``pooled``, ``decisions`` and ``partition_commands``. ``failures`` decides what follows when a
   handler fails.
4. **Close** (``closing``, ``departure``). Unfinished items are kept as rows, old rows are deleted (``retention``), and each flight is closed.
5. **Commit.** All flights go into one transaction. If a topic refuses records, ``refusals`` and ``undelivered`` take out these records.
6. **Land.** The rows are applied to the local copies, and waiting clients get their replies.

The modules form ten floors. Each module imports only from floors below its own:

=====  =====================================================================================================================
floor  modules
=====  =====================================================================================================================
10     worker
9      dispatch
8      assignment, closing, refusals, pooled
7      inbound, failures, departure, dialog_commands, partition_commands, decisions, routing, restoring, rollbacks
6      outbound, returns, strangers, undelivered, retention, intake, commands, switch, quarantine, probes, room, task, presence, condition
5      partition
1-4    the owners in the table below, and the modules that they use
=====  =====================================================================================================================

A ``Partition`` object itself stores only which endpoints have changed, and whether the object is gone. Every other part of the partition's
state has one owner, and only this owner changes it:

================  ================================================================================
``Outbox``        rows and records of the next transaction; its rows can be read before the commit
``Progress``      the partition's row: positions, log time, rollbacks, the switch
``QueueInput``    records that were read and not yet routed, and whether the input is paused
``Waiting``       records kept as rows: waiting, held behind a gap, or delayed for a destination
``Pieces``        pieces of commands, kept as rows
``Transmission``  outgoing envelopes, dialogs with an envelope that was refused for good, and ended dialogs whose messages come back
``Successions``   the order of the dialogs of each key of a pool
``Schedule``      deadlines of endpoints, deletion times of rows, ticks
``Work``          lanes and their runs, and the suspicion after an unclean start
``Groups``        rows of conversation groups: members and state
``Parking``       messages and handlers that wait to be tried again
``Letters``       dead letters, records set aside, events, broken dialogs to report
``Residents``     endpoints in memory
================  ================================================================================

All partitions of a worker share a ``Context``. Its lock guards all the state above. The polling thread holds the lock while it routes
records and closes steps. A run holds it between two handler calls.
"""

from conversations.worker.presence import Presence
from conversations.worker.stage import Stage
from conversations.worker.worker import Worker

__all__ = ["Presence", "Stage", "Worker"]
