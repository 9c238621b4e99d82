"""Log output on stderr: text lines for people, or JSON for programs."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

from conversations.logs import FIELDS, ConversationFilter
from conversations_ops.printable import json_line
from conversations_ops.printable import lines as indented

LEVELS = ("debug", "info", "warning", "error")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "conversation"}


class TextLines(logging.Formatter):
    """Formats a log record as text: time, level, worker, conversation, logger, message."""

    def __init__(self, worker: str) -> None:
        super().__init__()
        self._worker = worker

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the first line."""
        at = datetime.fromtimestamp(record.created).astimezone().isoformat(" ", "milliseconds")[:23]
        conversation = getattr(record, "conversation", "")
        who = f"{self._worker} {conversation}" if conversation else self._worker
        return f"{at} {record.levelname:7} [{who}] {record.name}: {record.message}"

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text. Lines after the first are indented, so that they do not look like a new record."""
        return indented(super().format(record))


class JsonLines(logging.Formatter):
    """Formats a log record as one JSON object, with all fields of ``extra``, and those fields of the dialog that are known."""

    def __init__(self, worker: str) -> None:
        super().__init__()
        self._worker = worker

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        data: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "worker": self._worker,
            "conversation": getattr(record, "conversation", ""),
            "message": record.getMessage(),
        }
        if record.exc_info:
            data["exception"] = self.formatException(record.exc_info)
        for name, value in vars(record).items():
            if name not in _STANDARD and name not in data and not (value == "" and name in FIELDS):
                data[name] = value
        return json_line(data)


class Warnings(logging.Handler):
    """Shows warnings of a command on stderr, for people."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a warning."""
        sys.stderr.write(indented(f"{record.levelname.lower()}: {record.getMessage()}") + "\n")


def show_warnings() -> None:
    """Show warnings on stderr. If logging is set up already, change nothing."""
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.WARNING, handlers=[Warnings()])


def configure(worker: str, *, level: str, as_json: bool) -> None:
    """Send every log record of this process to stderr, each with its conversation. An earlier logging set-up is replaced."""
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(JsonLines(worker) if as_json else TextLines(worker))
    lines.addFilter(ConversationFilter())
    logging.basicConfig(level=level.upper(), handlers=[lines], force=True)
    logging.captureWarnings(capture=True)
