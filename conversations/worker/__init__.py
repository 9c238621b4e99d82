"""The worker: it owns partitions of a service's queue, and handles what arrives in them.

``worker.Worker`` lives in steps. One step is one transaction:

1. **Poll.** Records of queue and commands are read. Kafka may give the worker partitions, or take some away (``assignment``, ``restoring``).
2. **Route** (``routing``, ``intake``). A record is decoded, checked, and put into the lane of its conversation group as an item.
   Endpoints whose time has come get their turn, too (``Partition.wake``).
3. **Run** (``dispatch``). Each lane with something to do gets a run. A run takes one item after the other: the endpoint takes the
   envelope (``inbound``; ``strangers`` where there is no endpoint), a handler is called, and what it asked for is carried out
   (``outbound``). Commands are carried out by ``dialog_commands``, ``decisions`` and ``partition_commands``. A handler that fails
   is for ``failures``.
4. **Close** (``closing``, ``departure``). Unfinished items are kept as rows, old rows are forgotten (``retention``), and each flight is closed.
5. **Commit.** All flights are one transaction. Topics that refuse records of it are dealt with by ``refusals`` and ``undelivered``.
6. **Land.** The rows go into the local copies, and waiting clients are told.

The modules stand on nine floors. Each imports only from floors below its own:

=====  ==========================================================================================================
floor  modules
=====  ==========================================================================================================
9      worker
8      dispatch, assignment, closing, refusals
7      inbound, failures, departure, dialog_commands, partition_commands, decisions, routing, restoring, rollbacks
6      outbound, strangers, undelivered, retention, intake, commands, switch, quarantine, probes, room, task, presence
5      partition
1-4    the owners of the table below, and what they are made of
=====  ==========================================================================================================

A ``Partition`` holds no state of its own but the endpoints in memory. Each part of its state has one owner, which alone changes it:

================  ================================================================================
``Outbox``        what the next transaction carries; reads see it before it is committed
``Progress``      the partition's row: positions, log time, rollbacks, the switch
``QueueInput``    records that are at hand and not taken, and whether the input is paused
``Waiting``       records kept as rows: waiting, held behind a gap, delayed before a destination
``Transmission``  envelopes on their way out, and dialogs whose envelopes are refused for good
``Schedule``      deadlines of endpoints, rows to be forgotten, ticks
``Work``          lanes and their runs, and the suspicion after an unclean start
``Groups``        rows of conversation groups: members and state
``Parking``       what waits for a failed handler to be tried again
``Letters``       dead letters, records set aside, events
``Residents``     endpoints in memory
================  ================================================================================

All partitions of a worker share a ``Context``. Its lock guards everything above: the polling thread holds it while it decides, and a
run holds it between two handlers.
"""

from conversations.worker.worker import Worker

__all__ = ["Worker"]
