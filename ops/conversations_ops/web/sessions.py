"""Sessions of users who have logged in, the tokens of their forms, and the pauses after wrong passwords."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta
from threading import Lock, RLock
from typing import NamedTuple

from conversations_ops.web.users import User

MANY = 1_000
"""Maximum number of sessions, and of names and addresses with wrong passwords that are remembered."""
FREE = 5
"""Number of wrong passwords before the first pause."""


class Lengths(NamedTuple):
    """How long sessions and pauses last."""

    idle: timedelta = timedelta(minutes=30)
    """A session ends when no page was opened for this time."""
    longest: timedelta = timedelta(hours=12)
    """A session ends after this time in any case."""
    pause: timedelta = timedelta(minutes=5)
    """Maximum pause after wrong passwords."""


class Session(NamedTuple):
    """The session of a user. Times are seconds of the clock."""

    user: User
    began: float
    used: float
    form: str
    """The token that each form of this session has. Another site cannot know it."""


class Sessions:
    """All sessions. They are in memory only, so they end with the console."""

    def __init__(self, lengths: Lengths | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._lengths, self._clock = lengths or Lengths(), clock
        self._known: OrderedDict[str, Session] = OrderedDict()
        """Sessions by the hash of their token, the least used first. The tokens are not kept."""
        self._lock = Lock()

    def begin(self, user: User) -> str:
        """Begin a session, and return its token. If there are too many, the one that was not used for the longest time ends."""
        token, now = secrets.token_urlsafe(32), self._clock()
        with self._lock:
            self._known[_hash(token)] = Session(user, now, now, secrets.token_urlsafe(32))
            while len(self._known) > MANY:
                self._known.popitem(last=False)
        return token

    def find(self, token: str, *, used: bool) -> Session | None:
        """Return the session of a token; None if it has ended. With ``used``, the session counts as used now."""
        now, name = self._clock(), _hash(token)
        with self._lock:
            it = self._known.get(name)
            if it is None:
                return None
            if (
                now - it.used > self._lengths.idle.total_seconds()
                or now - it.began > self._lengths.longest.total_seconds()
            ):
                del self._known[name]
                return None
            if used:
                it = self._known[name] = it._replace(used=now)
                self._known.move_to_end(name)
            return it

    def end(self, token: str) -> None:
        """End a session. Harmless if it has ended."""
        with self._lock:
            self._known.pop(_hash(token), None)


def is_form_of(session: Session, token: str) -> bool:
    """Return True if a form has the token of its session."""
    return hmac.compare_digest(session.form.encode(), token.encode("utf-8", "replace"))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


class Pauses:
    """Pauses before the next attempt to log in, by name and by address. They double with each wrong password.

    Guesses at a name from elsewhere do not lock out its user: an address from which a name has logged in is not held up by the pause of
    the name, only by its own.
    """

    def __init__(self, lengths: Lengths | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._longest, self._clock = (lengths or Lengths()).pause.total_seconds(), clock
        self._wrong: OrderedDict[str, tuple[int, float]] = OrderedDict()
        """Number of wrong passwords, and the end of the pause, by name or address."""
        self._right: OrderedDict[tuple[str, str], None] = OrderedDict()
        """Names and addresses that have logged in, the earliest first."""
        self._lock = RLock()

    def attempt(self, name: str, address: str) -> float:
        """Return the seconds that remain of a pause. If none remains, return 0, and count a wrong password until ``right`` takes it back.

        It is counted before it is checked, because many passwords may be sent at the same moment.
        """
        with self._lock:
            left = self.left(name, address)
            if not left:
                self.wrong(name, address)
            return left

    def left(self, name: str, address: str) -> float:
        """Return the seconds that remain of the longest pause of a name and an address; 0 if there is none."""
        now = self._clock()
        with self._lock:
            whom = (address,) if (name, address) in self._right else (name, address)
            return max(0.0, *(self._wrong.get(it, (0, 0.0))[1] - now for it in whom))

    def wrong(self, name: str, address: str) -> None:
        """Note a wrong password of a name and an address."""
        now = self._clock()
        with self._lock:
            for it in (name, address):
                count, until = self._wrong.pop(it, (0, 0.0))
                count = 1 if until and now - until > self._longest else count + 1
                pause = 0.0 if count < FREE else min(2.0 ** min(count - FREE, 20), self._longest)
                self._wrong[it] = count, now + pause
            while len(self._wrong) > MANY:
                self._wrong.popitem(last=False)

    def right(self, name: str, address: str) -> None:
        """Forget the wrong passwords of a name and an address, and remember that they belong together."""
        with self._lock:
            for it in (name, address):
                self._wrong.pop(it, None)
            self._right[name, address] = None
            self._right.move_to_end((name, address))
            while len(self._right) > MANY:
                self._right.popitem(last=False)
