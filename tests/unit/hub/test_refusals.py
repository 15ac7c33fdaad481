"""What git and the hubs say when a repetition cannot help, when they admit nobody, and while they are away."""

from __future__ import annotations

import pytest

from shared.base.errors import GitError
from shared.hub.refusals import is_doubtful, is_for_good

_ACCESS = "fatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights"


@pytest.mark.parametrize(
    "said",
    [
        "error: src refspec nothere does not match any\nerror: failed to push some refs to '../hub'",
        "fatal: invalid refspec 'HEAD:refs/heads/a..b'",
        "fatal: ref updates aborted by hook\nfatal: the remote end hung up unexpectedly",
        "[remote rejected] (pre-receive hook declined)",
        "[remote rejected] (deny updating a hidden ref)",
        "fatal: detected dubious ownership in repository at '/srv/hub.git'",
        "fatal: the receiving end does not support --atomic push",
        f"Host key verification failed.\n{_ACCESS}",
        "error: RPC failed; HTTP 413 curl 22 The requested URL returned error: 413",
    ],
)
def test_a_refusal_is_for_good(said: str) -> None:
    error = GitError("git push failed", output=said)
    assert is_for_good(error) and not is_doubtful(error)


@pytest.mark.parametrize(
    "said",
    [
        "fatal: Authentication failed for 'https://git.example/a.git/'",
        "fatal: could not read Username for 'https://git.example': terminal prompts disabled",
        f"ERROR: Permission to a/b.git denied to c.\n{_ACCESS}",
        "remote: Permission to a/b.git denied to c.\nfatal: unable to access 'https://git.example/a/b.git/': "
        "The requested URL returned error: 403",
        f"git@git.example: Permission denied (publickey).\n{_ACCESS}",
        "remote: Repository not found.\nfatal: repository 'https://git.example/a/b.git/' not found",
        "fatal: unable to access 'https://git.example/a/b.git/': The requested URL returned error: 403",
        "remote: error: cannot lock ref 'refs/crw/a': Unable to create '/srv/hub.git/./refs/crw/a.lock': File exists.",
    ],
)
def test_what_a_hub_says_to_strangers_it_says_in_an_outage_too(said: str) -> None:
    error = GitError("git push failed", output=said)
    assert is_doubtful(error) and not is_for_good(error)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "[rejected] (stale info)",
        "[remote rejected] (atomic transaction failed)",
        f"fatal: '/srv/hub.git' does not appear to be a git repository\n{_ACCESS}",
        f"ssh: connect to host git.example port 22: Connection refused\n{_ACCESS}",
        f"ssh: Could not resolve hostname git.example: Temporary failure in name resolution\n{_ACCESS}",
        "fatal: unable to access 'https://git.example/a.git/': Could not resolve host: git.example",
        "fatal: unable to access 'https://git.example/a.git/': The requested URL returned error: 503",
        "fatal: unable to access 'https://git.example/a.git/': The requested URL returned error: 429",
        "error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502",
        "fatal: the remote end hung up unexpectedly\nfatal: early EOF",
        "[remote rejected] (pre-receive hook declined) GitLab: Internal API unreachable",
        "[remote rejected] (unpacker error) fatal: write error: No space left on device",
        "remote: Internal Server Error\nfatal: unable to access 'https://git.example/a.git/': "
        "The requested URL returned error: 403",
    ],
)
def test_an_outage_is_neither(said: str) -> None:
    error = GitError("git push failed", output=said)
    assert not is_for_good(error) and not is_doubtful(error)
