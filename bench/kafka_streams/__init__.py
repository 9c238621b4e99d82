"""The contender in Kafka Streams: its Java sources, the lock of its jars, and how they become a command line."""
