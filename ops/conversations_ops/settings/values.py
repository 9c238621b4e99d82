"""Reads and writes values of settings as people write them: ``2 d``, ``50 ms``, ``64 MB``, ``16``, ``0.5``, ``off``, ``never``."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

from conversations.durations import DAY, HOUR, MINUTE, SECOND
from conversations.seal_keys import check_place
from conversations.setting import Unit
from conversations_ops.settings.names import Setting

TIMES = {"us": 1, "ms": SECOND // 1_000, "s": SECOND, "min": MINUTE, "h": HOUR, "d": DAY}
BYTES = {"B": 1, "kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
SWITCH = {"on": True, "off": False}
NEVER = "never"
_MEASURE = re.compile(r"(\d[\d_]*(?:\.\d+)?)\s*([A-Za-z]*)", re.ASCII)
_NUMBER = re.compile(r"\d[\d_]*", re.ASCII)
_MICROSECOND = timedelta(microseconds=1)


def read(setting: Setting, text: str) -> Any:
    """Return the value that is written as ``text``. For a switch, the value is a bool.

    Raises:
        ValueError: the text is not a valid value. The message explains which values are valid.
    """
    if setting.never and text == NEVER:
        return None
    if setting.unit is Unit.WORD:
        if text not in setting.words:
            raise ValueError(f"the value must be {' or '.join(setting.words)}")
        return text
    if setting.unit is Unit.PLACE:
        return check_place(text)
    value = _READERS[setting.unit](text)
    if value < setting.least:
        raise ValueError(f"the value must be at least {_written(setting.unit, setting.least)}")
    if isinstance(setting.default, timedelta):
        try:
            return timedelta(microseconds=value)
        except OverflowError:
            raise ValueError("the time is too long") from None
    return value


def written(setting: Setting, value: Any) -> str:
    """Return a value as text that ``read`` understands."""
    if setting.unit is Unit.SWITCH:
        return "off" if value is None else "on"
    if value is None:
        return NEVER
    if setting.unit is Unit.PLACE and not isinstance(value, str):
        return f"class:{type(value).__module__}:{type(value).__qualname__}"
    return _written(setting.unit, value // _MICROSECOND if isinstance(value, timedelta) else value)


def _written(unit: Unit, value: Any) -> str:
    if unit is Unit.TIME:
        return _measured(value, TIMES) if value else "0 s"
    if unit is Unit.BYTES:
        return _measured(value, BYTES) if value else "0 B"
    return str(value)


def _measured(value: int, units: dict[str, int]) -> str:
    name, size = max((it for it in units.items() if value % it[1] == 0), key=lambda it: it[1])
    return f"{value // size} {name}"


def _time(text: str) -> int:
    return _measure(text, TIMES, "a time has a unit, us, ms, s, min, h or d, for instance 50 ms or 2 d")


def _bytes(text: str) -> int:
    known = BYTES | {"": 1}
    return _measure(
        text,
        known,
        "a size is a number of bytes, or a number with the unit B, kB, MB, GB, KiB, MiB or GiB, for instance 64 MB",
    )


def _measure(text: str, units: dict[str, int], how: str) -> int:
    found = _MEASURE.fullmatch(text)
    if found is None or found.group(2) not in units:
        raise ValueError(how)
    value = Decimal(found.group(1)) * units[found.group(2)]
    if value != int(value):
        raise ValueError(f"{how}; this is no whole number of {next(iter(units))}")
    return int(value)


def _number(text: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise ValueError("the value must be a whole number, for instance 16")
    return int(text)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError("the value must be a number from 0 to 1, for instance 0.5")
    return value


def _switch(text: str) -> bool:
    if text not in SWITCH:
        raise ValueError("the value must be on or off")
    return SWITCH[text]


_READERS: dict[Unit, Any] = {
    Unit.TIME: _time, Unit.BYTES: _bytes, Unit.NUMBER: _number, Unit.SHARE: _share, Unit.SWITCH: _switch
}  # fmt: skip
