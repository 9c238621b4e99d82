"""Write docs/doctor.md from the table of the doctor's checks, ``conversations_ops.doctor.checks``.

python docs/make_doctor.py           write the page
python docs/make_doctor.py --check   exit with 1 if the committed page is stale
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from conversations_ops.doctor import cluster, machine, rights, topics
from conversations_ops.doctor.checks import UNSEEN
from conversations_ops.doctor.findings import Check, Severity, general
from conversations_ops.doctor.fitness import REFUSED

PAGE = Path(__file__).with_name("doctor.md")
TEXT = """# The doctor

<!-- made by `make docs` from ops/conversations_ops/doctor/ -->

`conversations doctor` looks for what is wrong with a cluster, a namespace and this machine, before it hurts. It writes nothing.

```
conversations doctor --bootstrap kafka-1:9092
conversations doctor shop.orders:service --role worker --stores /var/lib/shop
conversations doctor --json | jq -r '.findings[] | select(.severity == "fatal") | .fix'
```

Each finding has a name, a severity, a place, what was found, what is needed, why, and its fix. The exit code is 0 if there is nothing but
notes, 1 if something is fatal or a warning, 2 for wrong usage, and 3 if Kafka does not answer.

| severity | means |
|---|---|
| `fatal` | exactly-once, order or bytes can be lost, or something cannot work at all |
| `warning` | it will hurt, and nothing is lost that was acknowledged |
| `note` | worth knowing; nobody must act |

* The settings of topics are compared with the periods of the namespace, so give the doctor the same `--settings` file as the workers.
* The lifetimes of contracts are not in the catalog. Give the services as targets, and the doctor compares the lifetimes with the retention.
* With `--role`, a right that the role needs on a topic is fatal if it is missing. Rights on groups and transactional ids are not looked at.
* Without `--stores`, the local copies in the cache directory are looked at. A copy whose worker works now is not read.
* A clock of this machine that is ahead of the brokers is not seen, because Kafka tells its time only to writers. A clock that is behind is
  seen in the records of the topics, and the reports of workers whose clock was wrong are read.
* Commands that end with `.sh` are Kafka's own tools. In the tables, words in capitals stand for what is found; the command fills them in.

`conversations apply` first looks at the cluster, and changes nothing if there is one of these findings: REFUSED.
A person may know better. `conversations apply --despite NAME` then goes on, and its output says so. What is wrong with topics is no reason to refuse, because
`apply` makes and corrects topics. [Decision 0047](decisions/0047-apply-refuses-what-the-doctor-calls-fatal.md) has the reasons for the severities.
"""
COLUMNS = "| finding | severity | why | fix |\n|---|---|---|---|\n"
_RANK = list(Severity)


def row(check: Check) -> str:
    """Return the row of a check."""
    return f"| `{check.name}` | {check.severity} | {check.why} | {general(check)} |".replace("|| ", "&#124;&#124; ")


def section(title: str, checks: Iterable[Check]) -> str:
    """Return a section with a table of checks, the worst first."""
    ordered = sorted(checks, key=lambda it: _RANK.index(it.severity))
    return f"## {title}\n\n{COLUMNS}" + "\n".join(map(row, ordered)) + "\n"


def page() -> str:
    """Return the text of docs/doctor.md."""
    parts = [
        TEXT.replace("REFUSED", ", ".join(f"`{name}`" for name in REFUSED)),
        section("The cluster", cluster.CHECKS),
        section("Topics", topics.CHECKS),
        section("Rights", (*rights.CHECKS, UNSEEN)),
        section("This machine", machine.CHECKS),
    ]
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    """Write or check the page; return the exit code."""
    if arguments == ["--check"]:
        is_fresh = PAGE.exists() and PAGE.read_text("utf-8") == page()
        if not is_fresh:
            print(f"{PAGE.name}: stale, run `make docs`", file=sys.stderr)
        return int(not is_fresh)
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
