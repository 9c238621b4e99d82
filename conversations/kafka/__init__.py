"""The Kafka side of the ports; the only package that imports confluent_kafka and rocksdict."""
