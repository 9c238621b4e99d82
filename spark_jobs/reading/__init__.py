"""Kafka's topics and the archive as DataFrames: records, envelopes, messages, dialogs, letters, state rows."""
