"""Periods of this process, all shortened in one proportion where a test says so."""

from __future__ import annotations

import os
from typing import Any

from conversations.config import Periods, WorkerSettings
from conversations.errors import DeclarationError

VARIABLE = "CONVERSATIONS_PERIODS_DIVIDED_BY"
"""A number: whoever works on a namespace, workers, commands and jobs, must have the same."""


def worker_settings(**chosen: Any) -> WorkerSettings:
    """Return the settings of a worker, their periods shortened as ``CONVERSATIONS_PERIODS_DIVIDED_BY`` says; for tests.

    Raises:
        DeclarationError: it says something that periods cannot be divided by.
    """
    settings, said = WorkerSettings(**chosen), os.environ.get(VARIABLE, "")
    if not said:
        return settings
    try:
        return settings.scaled(float(said))
    except (ValueError, OverflowError) as error:
        raise DeclarationError(f"{VARIABLE}={said:.40}: {error}") from None


def periods() -> Periods:
    """Return the same periods, for whoever is no worker.

    Raises:
        DeclarationError: as ``worker_settings``.
    """
    return worker_settings().periods
