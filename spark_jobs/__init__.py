"""Spark jobs over the topics of services. A job is a pure transform with a thin main."""
