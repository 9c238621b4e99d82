"""Metrics for Prometheus: what the supervisor knows of its workers, what the read model has, and what clients count.

``conversations.metrics`` declares the metrics. ``workers``, ``services`` and ``clients`` collect their values. ``exposition`` writes them for
Prometheus; it needs the extra ``ops``.
"""
