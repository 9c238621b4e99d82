"""The users of the web console, their sessions, and the pauses after wrong passwords."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from conversations.errors import DeclarationError
from conversations_ops.web import sessions
from conversations_ops.web.desk import Links
from conversations_ops.web.sessions import FREE, MANY, Lengths, Pauses, Sessions, is_form_of
from conversations_ops.web.users import Role, User, Users

WORD = "a horse and a battery"
ANN = User("ann", Role.OPERATOR, bodies=True)


@pytest.fixture
def users(tmp_path: Path) -> Users:
    made = Users(tmp_path / "deep" / "users.json")
    made.add("ann", Role.OPERATOR, WORD)
    made.add("ben", Role.VIEWER, f"{WORD}!")
    return made


def test_a_user_is_known_by_name_and_password(users: Users) -> None:
    assert [users.check("ann", WORD), users.check("ben", f"{WORD}!")] == users.all()
    assert [it[:3] for it in users.all()] == [ANN[:3], ("ben", Role.VIEWER, False)]
    for name, word in (
        ("ann", f"{WORD}!"),
        ("ben", WORD),
        ("ann", ""),
        ("", ""),
        ("eve", WORD),
        ("ann", WORD * 100),
        ("ann", "\udcff"),
    ):
        assert users.check(name, word) is None
    ben = Users(users.path, viewers_see_bodies=True).check("ben", f"{WORD}!")
    assert ben is not None
    assert ben.bodies


def test_a_user_who_is_removed_or_has_another_role_is_not_the_same(users: Users) -> None:
    ann, ben = users.all()
    assert users.has(ann)
    users.add("ann", Role.VIEWER, WORD)
    assert not users.has(ann)
    assert not users.has(ann._replace(role=Role.VIEWER, bodies=False))
    ann = users.all()[0]
    assert users.has(ann)
    assert not users.has(ann._replace(role=Role.OPERATOR, bodies=True))
    users.remove("ann")
    assert not users.has(ann)
    with pytest.raises(DeclarationError, match="has no user 'ann'"):
        users.remove("ann")
    users.path.unlink()
    assert not users.has(ben)


def test_a_new_password_ends_the_sessions_of_the_old_one(users: Users) -> None:
    ann = users.check("ann", WORD)
    assert ann is not None
    assert users.has(ann)
    users.add("ann", Role.OPERATOR, f"{WORD}?")
    assert not users.has(ann)
    assert users.has(users.all()[0])


def test_the_file_has_no_password_and_is_for_its_owner_alone(users: Users) -> None:
    assert users.path.stat().st_mode & 0o077 == 0
    assert WORD not in users.path.read_text()
    stored = json.loads(users.path.read_text())["users"]
    assert stored["ann"]["password"] != stored["ben"]["password"]
    users.path.chmod(0o644)
    with pytest.raises(DeclarationError, match="chmod 600"):
        Users(users.path).all()


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"users": []}', '{"users": {"ann": {}}}', '{"users": {"ann": {"role": "king", "password": "x"}}}',
     '{"users": {"<b>": {"role": "viewer", "password": "scrypt:1:1:1:aaaaaaaaaaaaaaaa:aaaaaaaaaaaaaaaa"}}}'],
)  # fmt: skip
def test_a_file_that_is_none_is_refused_and_lets_nobody_in(tmp_path: Path, content: str) -> None:
    path = tmp_path / "users.json"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(DeclarationError, match="is no file of users"):
        Users(path).check("ann", WORD)
    assert not Users(path).has(ANN)


@pytest.mark.parametrize(
    ("name", "word"), [("", WORD), ("a b", WORD), ("-x", WORD), ("a" * 65, WORD), ("ann", "short"), ("ann", "x" * 201)]
)
def test_bad_names_and_passwords_are_refused(tmp_path: Path, name: str, word: str) -> None:
    with pytest.raises(DeclarationError):
        Users(tmp_path / "users.json").add(name, Role.VIEWER, word)
    assert not (tmp_path / "users.json").exists()


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_session_ends_when_nobody_uses_it_and_after_its_longest_time(clock: Clock) -> None:
    known = Sessions(Lengths(timedelta(seconds=10), timedelta(seconds=30)), clock)
    token = known.begin(ANN)
    for _ in range(2):
        clock.now += 9
        assert known.find(token, used=True) is not None
    clock.now += 9
    assert known.find(token, used=False) is not None
    clock.now += 2
    assert known.find(token, used=True) is None  # looks of the script do not count as uses
    token = known.begin(ANN)
    for _ in range(3):
        clock.now += 9
        assert known.find(token, used=True) is not None
    clock.now += 4
    assert known.find(token, used=True) is None


def test_sessions_have_secrets_of_their_own_and_end(clock: Clock) -> None:
    known = Sessions(clock=clock)
    one, two = known.begin(ANN), known.begin(ANN)
    found = known.find(one, used=True)
    assert found is not None
    assert one not in known._known  # only its hash is kept
    other = known.find(two, used=True)
    assert other is not None
    assert is_form_of(found, found.form)
    assert not is_form_of(found, other.form)
    assert not is_form_of(found, "")
    known.end(one)
    assert known.find(one, used=True) is None
    for _ in range(MANY):
        known.begin(ANN)
    assert known.find(two, used=True) is None  # the one that was not used for the longest time makes room


def test_wrong_passwords_cost_longer_and_longer(clock: Clock) -> None:
    pauses = Pauses(Lengths(pause=timedelta(seconds=8)), clock)
    whom = "name ann", "address 1.2.3.4"
    lefts = []
    for _ in range(FREE + 5):
        pauses.wrong(*whom)
        lefts.append(pauses.left(*whom))
    assert lefts == [0.0] * (FREE - 1) + [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    assert pauses.left("name ann", "address elsewhere") == 8.0
    assert pauses.left("name ben", "address elsewhere") == 0.0
    clock.now += 8
    assert pauses.left(*whom) == 0.0
    pauses.wrong(*whom)
    assert pauses.left(*whom) == 8.0
    pauses.right(*whom)
    assert pauses.left(*whom) == 0.0
    pauses.wrong(*whom)
    assert pauses.left(*whom) == 0.0
    for number in range(3 * sessions.MANY):
        pauses.wrong(str(number), "address")
        pauses.right(f"{number}!", "elsewhere")
    assert len(pauses._wrong) == len(pauses._right) == sessions.MANY


def test_many_passwords_at_the_same_moment_are_no_way_around_a_pause(clock: Clock) -> None:
    pauses = Pauses(clock=clock)
    begun = [pauses.attempt("name ann", "address 1.2.3.4") for _ in range(40)]  # none of them is checked yet
    assert begun.count(0.0) == FREE
    pauses.right("name ann", "address 1.2.3.4")
    assert pauses.attempt("name ann", "address 1.2.3.4") == 0.0


def test_guesses_from_elsewhere_do_not_lock_a_user_out(clock: Clock) -> None:
    pauses = Pauses(clock=clock)
    pauses.right("name ann", "address home")
    for number in range(FREE):
        pauses.wrong("name ann", f"address {number}")
    assert pauses.left("name ann", "address away") > 0
    assert pauses.left("name ann", "address home") == 0.0
    assert pauses.left("name ben", "address home") == 0.0
    for _ in range(FREE):
        pauses.wrong("name ben", "address home")
    assert pauses.left("name ann", "address home") > 0  # the address has a pause of its own


def test_a_link_logs_in_once(clock: Clock) -> None:
    told: list[str] = []
    links = Links("me", told.append)
    assert links.use("") is None
    links.renew()
    assert links.use("guess") is None
    user = links.use(told[0])
    assert user is not None
    assert (user.name, user.decides, user.bodies) == ("me", True, True)
    assert links.use(told[0]) is None
    assert links.use(told[1]) is not None
    assert len(told) == 3
