"""What is wrong with a cluster, a namespace and this machine, before it hurts: the facts, the checks over them, and their table.

``facts`` has what was found, ``collected`` and ``here`` ask Kafka and this machine. ``cluster``, ``topics``, ``rights`` and ``machine`` have
the checks, which ask nothing and know no clock. ``checks`` has the table of all checks.
"""
