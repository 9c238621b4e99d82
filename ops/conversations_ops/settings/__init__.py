"""Settings as text: their names, how a value is written, where it was given, and what is in effect.

A setting is ``NAME=VALUE``, in a file or after ``--setting``. The product's settings are the fields of ``conversations.config``; every
other name is librdkafka's.
"""
