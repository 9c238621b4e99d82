"""Decides from the topics alone whether a chaos run lost, repeated or swapped anything.

It shares no code with what it judges: the schema files of ``conversations/schemas/``, fastavro, pyarrow and confluent-kafka are all it knows.
``check`` is a pure function over records; ``reader`` fetches them from Kafka; ``python -m tests.chaos.checker`` is the
command.
"""
