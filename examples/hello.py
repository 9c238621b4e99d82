"""``python examples/hello.py [HOST:PORT]`` prints "Hello, Ada". It runs on the Kafka at this address, or else in memory."""

# fmt: off
import sys
from datetime import timedelta

from pydantic import BaseModel

from conversations import Contract, Dialog, Kafka, Service, local


class Ask(BaseModel):
    name: str
class Greeting(BaseModel):
    text: str
HELLO = Contract("Hello", sent_by_initiator=[Ask], sent_by_target=[Greeting])
greeter = Service("greeter", accepts=[HELLO])

@greeter.on(Ask)
def greet(ask: Ask, dialog: Dialog) -> None:
    dialog.send(Greeting(text=f"Hello, {ask.name}"))
    dialog.end()

with local(greeter, kafka=Kafka(sys.argv[1]) if sys.argv[1:] else None) as client:
    print(client.request("greeter", HELLO, Ask(name="Ada"), reply=Greeting, timeout=timedelta(seconds=9)).result().text)
