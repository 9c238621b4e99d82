"""Local copies of partitions: on disk in RocksDB, and in memory."""
