"""Settings as text: their names, their values, the places where they are given, and the values in effect.

A setting is ``NAME=VALUE``, in a file or after ``--setting``. The product's settings are the fields of ``conversations.config``.
Every other name is a setting of librdkafka.
"""
