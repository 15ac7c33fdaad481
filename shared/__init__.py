"""What scheduler, workers and the command line have in common.

`base` has no project knowledge, `model` is the flow's words and pure rules, and
`journal`, `broker` and `hub` each own one outside system (Postgres, Celery and
Redis, the git repository a run was started on) and are blind to each other.
"""
