"""The ports on Apache Kafka. No other package of ``conversations`` imports confluent_kafka."""
