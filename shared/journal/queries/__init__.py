"""Every statement of the journal, named, with its locking explained above it.

THE lock order, for every transaction of every process: farm_hosts, farm_workers and
farm_schedulers, call_claims (by call id), node_placements, flow_runs (by run id),
outbox. The hot row, flow_runs, comes last and is held shortest. A right is judged on
the row that its lock returned. Isolation is READ COMMITTED everywhere.
Source: rules of the protocol 3.
"""
