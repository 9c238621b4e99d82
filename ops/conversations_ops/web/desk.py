"""What the pages of the web console share: the cluster, the read model, the users, their sessions, and what they are told."""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import BoundedSemaphore, Lock

from conversations.config import Kafka
from conversations.errors import DeclarationError, LogError
from conversations_ops.operate.commands import Refused
from conversations_ops.operate.dialogs import Side
from conversations_ops.operate.timeline import Seat, Timeline, timeline
from conversations_ops.read_model.live import Live
from conversations_ops.web.boards import Boards
from conversations_ops.web.redrives import Redrives
from conversations_ops.web.sessions import Lengths, Pauses, Session, Sessions
from conversations_ops.web.users import Role, User, Users

CHECKS = 2
"""Maximum number of passwords that are checked at once, because each check needs memory and time."""
LOG_INS = 8
"""Maximum number of people who log in at once. The others are told to try again, so that pages keep their threads."""
TIMELINES = 64
"""Maximum number of timelines that are kept."""
LOOK = 5.0
"""Seconds that the next page waits for the read model to have what a user did."""
NO_REASON = "Nothing was done: give a reason. It is in the journal."
THIS = "."
"""What a list is asked for to show this cluster alone. No other cluster can have this name."""
NOTICES = 1_000
"""Maximum number of sessions with a notice."""


class Links:
    """Links that log the owner of the process in once, for a console without users on this machine."""

    def __init__(self, name: str, tell: Callable[[str], None]) -> None:
        self._name, self._tell = name, tell
        self._lock = Lock()
        self._secret = ""

    def renew(self) -> None:
        """Make a new link, and tell it to the owner of the process."""
        with self._lock:
            self._secret = secrets.token_urlsafe(32)
            self._tell(self._secret)

    def use(self, secret: str) -> User | None:
        """Return the user of a link, which is used up by this; None if it is no link or is used up."""
        with self._lock:
            fits = bool(self._secret) and hmac.compare_digest(self._secret.encode(), secret.encode("utf-8", "replace"))
            self._secret = "" if fits else self._secret
        if not fits:
            return None
        self.renew()
        return User(self._name, Role.OPERATOR, bodies=True)


class Notices:
    """What a user is told on the next page."""

    def __init__(self) -> None:
        self._left: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._lock = Lock()

    def leave(self, session: Session, kind: str, text: str) -> None:
        """Leave a notice. ``kind`` is ``good``, ``bad`` or ``plain``."""
        with self._lock:
            self._left[session.form] = kind, text
            while len(self._left) > NOTICES:
                self._left.popitem(last=False)

    def take(self, session: Session) -> tuple[str, str] | None:
        """Return the notice of a session, and forget it."""
        with self._lock:
            return self._left.pop(session.form, None)


class Timelines:
    """Timelines of dialogs. A timeline is read again when a side of its dialog has changed."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[object, ...], Timeline] = OrderedDict()
        self._lock = Lock()

    def of(self, seats: Sequence[Seat]) -> Timeline:
        """Return the timeline of a dialog from its sides.

        Raises:
            LogError: a queue cannot be read.
        """
        name = tuple(_facts(it.side) for it in seats)
        with self._lock:
            kept = self._kept.get(name)
        if kept is None:
            kept = timeline(seats)
            with self._lock:
                self._kept[name] = kept
                while len(self._kept) > TIMELINES:
                    self._kept.popitem(last=False)
        return kept


def _facts(it: Side) -> tuple[object, ...]:
    heads = tuple((head.letter, head.attempts, head.due) for head in it.heads)
    return it.service, it.conversation, it.state, it.sent, it.accepted, it.handled, it.waits.records, heads


class Desk:
    """The parts that the pages work with.

    Args:
        kafka: the cluster and namespace.
        live: the read model.
        users: the users; None if only the owner of the process logs in, by a link.
        links: these links; None if there are users.
        redrives: the redrives that this process carries out.
        lengths: how long sessions and pauses last.
        others: the read models of other clusters, by the names of the clusters. Their pages only show.
    """

    def __init__(
        self,
        kafka: Kafka,
        live: Live,
        users: Users | None,
        links: Links | None,
        redrives: Redrives,
        lengths: Lengths | None = None,
        others: Mapping[str, Live] | None = None,
    ) -> None:
        self.kafka, self.live, self.others = kafka, live, others or {}
        self.boards = Boards({"": live, **self.others})
        self.users, self.links = users, links
        self.redrives = redrives
        self.sessions, self.pauses = Sessions(lengths), Pauses(lengths)
        self.notices, self.timelines = Notices(), Timelines()
        self.checks, self.log_ins = BoundedSemaphore(CHECKS), BoundedSemaphore(LOG_INS)

    @property
    def clusters(self) -> Mapping[str, Live]:
        """The read model of each cluster, by its name. This cluster is the first one, and has no name."""
        return {"": self.live, **self.others}

    def chosen(self, cluster: str) -> Mapping[str, Live]:
        """Return the clusters that a list shows: all of them if ``cluster`` is empty, this one for ``THIS``; none if there is no such cluster."""
        if not cluster:
            return self.clusters
        name = "" if cluster == THIS else cluster
        return {it: live for it, live in self.clusters.items() if it == name}

    def knows(self, user: User) -> bool:
        """Return True if a user who has logged in is still a user. The owner of the process always is."""
        return self.users is None or self.users.has(user)

    def carry_out(self, session: Session, reason: str, act: Callable[[], tuple[str, str] | None]) -> None:
        """Carry out what a user wants, and leave a notice of what became of it. Then the read model is brought up to date.

        Args:
            session: the session of the user.
            reason: the user's reason. Without one, nothing is done.
            act: does it, and returns the kind and the text of the notice; None for no notice. It may be refused.
        """
        if not reason.strip():
            self.notices.leave(session, "bad", NO_REASON)
            return
        try:
            told = act()
        except (Refused, LogError, DeclarationError) as error:
            told = "bad", str(error)
        if told is not None:
            self.notices.leave(session, *told)
        self.live.look_now(LOOK)
