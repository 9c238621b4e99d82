"""The ports in one process: a transactional log, a store and clocks without Kafka."""
