"""The whole table: one chapter for each part of Service Broker."""

from tests.conformance.codes import ERRORS, OWN, STATEMENTS
from tests.conformance.delivery import DELIVERY
from tests.conformance.endpoints import ENDPOINTS
from tests.conformance.groups import GROUPS
from tests.conformance.messages import MESSAGES
from tests.conformance.poison import POISON
from tests.conformance.retention import RETENTION
from tests.conformance.transmission import TRANSMISSION
from tests.conformance.verbs import VERBS

CHAPTERS = (VERBS, ENDPOINTS, GROUPS, MESSAGES, DELIVERY, POISON, RETENTION, ERRORS, STATEMENTS, OWN, TRANSMISSION)
