"""The audit finds nothing wrong in pools: neither while dialogs of a key are held back, nor when they are replaced, ended and broken."""

import pytest
from pyspark.sql import SparkSession

from conversations import Dialog, Service
from conversations.testing import Simulation
from tests.simulation.test_pools import HELD, MINUTE, Push, Seen, World
from tests.spark.support.topics import topics_of_memory
from tests.spark.test_delivery_audit import faults

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_the_audit_knows_the_message_that_replaces_a_dialog(spark: SparkSession) -> None:
    """The target answers, holds a message, ends its side, or breaks the dialog: each on its own key."""
    world = World(max_messages=2, poison=[HELD], resend="off", raise_failures=False)
    gateway = Service("gateway", accepts=[world.pushes], poison=[HELD])
    fails, handled = {"held"}, []

    @gateway.on(Push)
    def pushed(push: Push, dialog: Dialog) -> None:
        if push.text in fails:
            raise ValueError(push.text)
        handled.append(push.text)
        if push.text == "end":
            dialog.end()
        elif push.text == "error":
            dialog.end_with_error(7, "enough")
        else:
            dialog.send(Seen(upto=push.text))

    with Simulation(gateway, world.alerts, raise_failures=False) as sim:
        world.sim = sim
        for key, text in (("a", "1"), ("b", "held"), ("c", "end"), ("d", "error")):
            for each in ("0", text, "2", "3", "4"):
                world.push(key, each)
        sim.run()
        assert faults(spark, topics_of_memory(sim.broker)) == {}
        fails.clear()
        (failed,) = sim.parked("gateway")
        sim.decide(failed, "retry")
        sim.advance(20 * MINUTE)
        assert len(handled) == 20
        assert faults(spark, topics_of_memory(sim.broker)) == {}
