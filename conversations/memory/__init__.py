"""The ports in one process, without Kafka: a transactional log and clocks."""
