"""The protocol of dialogs, without I/O. It needs no Kafka client: Spark executors decode with the same code that services encode with."""
