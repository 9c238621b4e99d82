"""The protocol of dialogs, without I/O. It needs no Kafka client, so Spark executors decode records with the code of the services."""
