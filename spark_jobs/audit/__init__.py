"""The parts of ``spark_jobs.delivery_audit``: what is read, what it says about each number, and what is wrong with that."""
