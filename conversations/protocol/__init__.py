"""The protocol of dialogs: pure, importable without Kafka (Spark executors decode with what services encode with)."""
