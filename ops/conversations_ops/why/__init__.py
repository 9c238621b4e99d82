"""Why a dialog or a service stalls: the facts, the causes in the order in which they act, and the next command.

``facts`` has what is known about one dialog, ``causes`` the rules, which ask nothing and know no clock, and ``collected`` asks Kafka.
"""
