"""Operations: effects other than a model's turn, each recognised again under its request id.

An op runs under a claim as an agent call does: `op.py` has the protocol and the
registry, `run.py` carries a claimed call from its prepared row to its terminal
row, and each op has a file of its own. An op that may have had its effect before
its worker died looks for that effect first, under the same request id.
"""
