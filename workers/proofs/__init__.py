"""Proofs: are the effects that the journal records still there? Rows and git in, verdicts out.

Authority: the journal says what was done, git on the node's host says what is there now;
nothing else is asked, and nothing is changed. The same rows and the same git give the
same verdicts, whoever asks and however often.

    record        a node's worktrees, executor calls and commits, as its rows have them (pure)
    commit_chain  lines of commits, what each covers, where HEAD stands (pure)
    executor      the verdicts on the executor calls of a node (pure)
    ops           those on commits and integrations, and on the states of held calls (pure)
    facts         git's facts of all nodes of a run on this host, in few git processes
    answer        the answer to the one question that a resume asks this host

When git cannot read a worktree, that is a fact as well: its files are then not known to
be anybody's. A worktree that a call works in at this moment is not read at all; the
snapshot recorded when the call began stands for it.
Source: journal document, "The proofs"; rules of the protocol, 10 and 26.
"""
