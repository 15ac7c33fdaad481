"""The hot functions look rows up by their keys, however small the tables were when their plans were made.

Their plans are made once a session. Made while the tables are new, they read every
claim to find one, and stay so until the next automatic analyze (measured: an append
took twice as long after three thousand calls). What they join is a group of at most
some hundred keys, so a look-up in an index is never the wrong way.
Source: rules of the protocol, 38.
"""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"

_FUNCTIONS = ("crw_append", "crw_claim", "crw_judge")
_SCANS = ("enable_seqscan", "enable_hashjoin", "enable_mergejoin")


def upgrade() -> None:
    for name in _FUNCTIONS:
        op.execute(f"alter function {name} {' '.join(f'set {scan} = off' for scan in _SCANS)}")
