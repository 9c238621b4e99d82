"""Parts of ``spark_jobs.delivery_audit``: its inputs, the facts about each number, and the faults."""
