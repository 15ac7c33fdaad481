"""What this host knows of a turn whose fate no row tells, and what that proves.

Authority: the App Server's own record of the thread, read by the one process that may
write to it. Nothing here sends a turn or writes a row; it answers three questions.

    lookup     what does the host have of this turn? (takes the thread's writer lock first)
    evidence   when it has nothing: does that prove that the model was never asked? (pure)
    creations  which threads and forks did this call make, and did any of them have a turn?

Why an end that is read counts: the caller holds the state directory's lock, so the
worker and the server that ran the turn are gone; `thread/resume` has taken the thread's
own lock, so nobody else runs it. `interrupted` without an end time is then a turn that
was cut by that death, and not one that runs elsewhere.

Why an absence counts, and when: a turn's input is on the server's disk before the model
is asked (measured), so a turn without its input was never asked, on the same home and
boot and as long as the disk had room. In every other case nothing is proven, and what
was sent is never sent again.
Source: App Server document, "The App Server backend"; rules of the protocol, 4 and 6;
settled conflicts of the interrupted, the acknowledged and the empty turn.
"""

from workers.reconcile.creations import Creation, find_creations, find_fork
from workers.reconcile.evidence import is_delivered, why_unproven
from workers.reconcile.lookup import Sighting, find_turn, look_up, read_operations, take_thread
from workers.reconcile.orphans import archive_orphans

__all__ = [
    "Creation",
    "Sighting",
    "archive_orphans",
    "find_creations",
    "find_fork",
    "find_turn",
    "is_delivered",
    "look_up",
    "read_operations",
    "take_thread",
    "why_unproven",
]
