"""Ends its process on one message."""

import os
from pathlib import Path

from pydantic import BaseModel

from conversations import Contract, Dialog, PoisonPolicy, Service

OUT = Path(os.environ.get("OUT", "."))


class Task(BaseModel):
    n: int
    deadly: bool = False


class Done(BaseModel):
    n: int


TASKS = Contract("Tasks", sent_by_initiator=[Task], sent_by_target=[Done])
boss = Service("boss", initiates=[TASKS], ignores=[Done])
deadly = Service("deadly", accepts=[TASKS], poison=[PoisonPolicy.service_broker()])


@deadly.on(Task)
def work(task: Task, dialog: Dialog) -> None:
    if task.deadly:
        with (OUT / "deaths").open("a") as file:
            file.write(f"{os.getpid()}\n")
        os._exit(1)
    dialog.send(Done(n=task.n))
    dialog.end()
