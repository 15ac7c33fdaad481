"""What an error of Postgres says about the transaction it ended: may it be tried again, may it be stored?

Source: design of the farm, "The journal in Postgres".
"""

from __future__ import annotations

import psycopg2

# Deadlock, serialization failure, lock or statement time-out: the transaction is gone, nothing of it was stored.
_ABORTED_STATES = ("40001", "40P01", "55P03", "57014")
# The server goes down, comes up, is full or has become a standby: this try is lost, a later one may do.
_AWAY_CLASSES = ("08", "53", "57P", "25006", "58")


def is_lost(error: psycopg2.Error) -> bool:
    """Whether the connection or the server went away: what was asked may have been done."""
    code = error.pgcode
    if code is None:
        # libpq reports some broken connections as a plain DatabaseError without a code.
        broken = isinstance(error, (psycopg2.OperationalError, psycopg2.InterfaceError))
        return broken or type(error) is psycopg2.DatabaseError
    return code.startswith(_AWAY_CLASSES)


def is_retryable(error: psycopg2.Error) -> bool:
    """Whether the same transaction may be tried again."""
    return is_lost(error) or error.pgcode in _ABORTED_STATES
