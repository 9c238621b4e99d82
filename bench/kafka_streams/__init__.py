"""The contender in Kafka Streams: its Java sources, the lock of its jars, and the module that makes its command line."""
