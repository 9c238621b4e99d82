"""Hosting services: a supervisor, its worker processes, their slots and the health page."""
