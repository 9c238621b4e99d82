"""What a viewer who may not see bodies does not see."""

import pytest

from conversations_ops.operate.queues import Queue
from conversations_ops.web.hidden import queues_for
from conversations_ops.web.users import Role, User


@pytest.mark.parametrize(
    ("off", "seen"), [("operator", "INC-1: a secret"), ("policy", "INC-1"), ("rollbacks", "INC-1")]
)
def test_the_reason_of_a_queue_that_no_operator_turned_off_is_the_text_of_an_exception(off: str, seen: str) -> None:
    queue = Queue("desk", 0, off, 1, "Task", "INC-1: a secret", 0, 0, 0)
    assert [it.reason for it in queues_for(User("ben", Role.VIEWER, bodies=False), [queue])] == [seen]
    assert queues_for(User("ann", Role.OPERATOR, bodies=True), [queue]) == [queue]
