"""The protocol of dialogs, without I/O. It needs no Kafka client, so Spark executors can decode records with the code that services use."""
