"""Celery over Redis or Valkey: messages and wake-ups, both of them hints.

A message may be lost, repeated, reordered or delivered to the wrong host without
changing any outcome: it names a call, and the journal decides who may work on it.
So a worker acknowledges early, prefetches nothing and keeps no results; what late
acknowledgement would have given comes from the outbox, which lives until a call
is claimed, and from leases. The broker being down delays work, nothing else.
"""
