"""What `flow start` refuses about a repository: one sentence each, and nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.base.errors import UsageError
from shared.hub.hub import check_hub
from shared.hub.machine import machine_label
from tests.repositories import commit_files, git, make_bare_hub, make_repository, served

pytestmark = pytest.mark.req("RULE40")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


def test_a_path_is_a_hub_of_this_machine_at_its_head(repository: Path) -> None:
    hub = check_hub(str(repository), None, None)
    assert hub.url == str(repository) and hub.is_path and hub.machine == machine_label()
    assert hub.base_commit == git(repository, "rev-parse", "HEAD")


def test_a_file_url_is_the_same_hub_as_its_path(repository: Path) -> None:
    assert check_hub(f"file://{repository}", None, None) == check_hub(str(repository), None, None)


@pytest.mark.req("W22")
def test_a_path_is_used_as_given_also_from_a_subdirectory_and_with_a_space_at_its_end(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "ends in a space ")
    assert check_hub(str(repository), None, None).url == str(repository)
    assert check_hub(str(repository / "src"), None, None).url == str(repository)


def test_a_relative_path_becomes_absolute(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    assert check_hub(".", None, None).url == str(repository)


def test_a_base_that_a_branch_and_a_tag_are_named_is_the_branch_whether_by_path_or_by_url(tmp_path: Path) -> None:
    hub = make_bare_hub(tmp_path / "hub.git")
    on_branch = git(hub, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "on the branch")
    git(hub, "tag", "v1", "main")
    git(hub, "update-ref", "refs/heads/v1", on_branch)
    assert check_hub(str(hub), "v1", None).base_commit == on_branch
    with served(tmp_path) as url:
        assert check_hub(f"{url}/hub.git", "v1", None).base_commit == on_branch


@pytest.mark.parametrize("base", ["main", "v1", "HEAD", "HEAD~1"])
def test_a_base_may_be_a_branch_a_tag_or_an_expression(repository: Path, base: str) -> None:
    first = git(repository, "rev-parse", "HEAD")
    commit_files(repository, {"b": "b"})
    git(repository, "tag", "-a", "-m", "t", "v1")
    expected = first if base == "HEAD~1" else git(repository, "rev-parse", "HEAD")
    assert check_hub(str(repository), base, None).base_commit == expected


@pytest.mark.parametrize("base", ["nowhere", "--all", "HEAD:README.md", "0" * 40])
def test_an_unknown_base_is_refused(repository: Path, base: str) -> None:
    with pytest.raises(UsageError, match="has no commit"):
        check_hub(str(repository), base, None)


def test_what_is_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no directory"):
        check_hub(str(tmp_path / "missing"), None, None)
    with pytest.raises(UsageError, match="is not a git repository"):
        check_hub(str(tmp_path), None, None)


def test_an_empty_repository_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "empty")
    with pytest.raises(UsageError, match="has no commit yet"):
        check_hub(str(tmp_path / "empty"), None, None)


def test_a_shallow_clone_is_refused_by_name(repository: Path, tmp_path: Path) -> None:
    commit_files(repository, {"b": "b"})
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repository}", "shallow")
    with pytest.raises(UsageError, match="shallow clone"):
        check_hub(str(tmp_path / "shallow"), None, None)


def test_submodules_are_refused_by_name(repository: Path, tmp_path: Path) -> None:
    part = make_repository(tmp_path / "part")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(part), "lib/part")
    git(repository, "commit", "-q", "-m", "with a submodule")
    with pytest.raises(UsageError, match=r"submodules at its base \(.gitmodules, lib/part\)"):
        check_hub(str(repository), None, None)
    assert check_hub(str(repository), "HEAD~1", None).is_path


def test_git_lfs_is_refused_by_name(repository: Path) -> None:
    commit_files(repository, {"assets/.gitattributes": "# filter=lfs in a comment\n*.psd filter=lfs diff=lfs -text\n"})
    with pytest.raises(UsageError, match=r"Git LFS at its base \(see assets/.gitattributes\)"):
        check_hub(str(repository), None, None)


def test_a_comment_about_lfs_is_no_lfs(repository: Path) -> None:
    commit_files(repository, {".gitattributes": "# *.psd filter=lfs\n*.txt text\n"})
    assert check_hub(str(repository), None, None).is_path


def test_a_checked_out_target_is_refused_unless_the_repository_allows_it(repository: Path) -> None:
    with pytest.raises(UsageError, match="'main' is checked out"):
        check_hub(str(repository), None, "main")
    assert check_hub(str(repository), None, "crw/result").is_path
    git(repository, "config", "receive.denyCurrentBranch", "updateInstead")
    assert check_hub(str(repository), None, "main").is_path


def test_a_target_checked_out_in_another_worktree_is_refused(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", "-b", "other", str(tmp_path / "second"))
    with pytest.raises(UsageError, match=r"'other' is checked out in .*second"):
        check_hub(str(repository), None, "other")


def test_a_bare_repository_takes_any_branch(tmp_path: Path) -> None:
    hub = make_bare_hub(tmp_path / "hub.git")
    assert check_hub(str(hub), None, "main").url == str(hub)


@pytest.mark.parametrize("target", ["a b", "-x", "x..y", "x.lock", "HEAD", "refs/tags/x", "refs/crw/x", "refs/heads/"])
def test_a_target_that_is_no_branch_name_is_refused(repository: Path, target: str) -> None:
    with pytest.raises(UsageError, match="is no branch name"):
        check_hub(str(repository), None, target)


def test_a_target_below_an_existing_branch_is_refused(repository: Path) -> None:
    with pytest.raises(UsageError, match="cannot be made beside the branch 'main'"):
        check_hub(str(repository), None, "main/result")


def test_nothing_is_written_by_a_check(repository: Path) -> None:
    def all_files() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted((repository / ".git").rglob("*")) if path.is_file()}

    before = all_files()
    check_hub(str(repository), "main", "crw/result")
    assert all_files() == before


def test_a_url_hub_is_bound_to_no_machine_and_its_probe_is_gone(tmp_path: Path) -> None:
    hub = make_bare_hub(tmp_path / "hub.git")
    before = git(hub, "for-each-ref")
    with served(tmp_path) as url:
        found = check_hub(f"{url}/hub.git", "main", "main")
    assert found.machine is None and not found.is_path
    assert found.base_commit == git(hub, "rev-parse", "main")
    assert git(hub, "for-each-ref") == before


def test_a_url_hub_that_takes_no_push_is_refused(tmp_path: Path) -> None:
    make_bare_hub(tmp_path / "hub.git")
    with served(tmp_path, writable=False) as url, pytest.raises(UsageError, match="does not take a push"):
        check_hub(f"{url}/hub.git", None, None)


def test_a_url_hub_that_refuses_in_its_hook_is_refused_although_a_dry_run_passes(tmp_path: Path) -> None:
    hub = make_bare_hub(tmp_path / "hub.git")
    hook = hub / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho protected >&2\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    with served(tmp_path) as url, pytest.raises(UsageError, match="does not take a push"):
        check_hub(f"{url}/hub.git", None, None)


def test_a_url_hub_with_an_unknown_base_or_that_is_not_there_is_refused(tmp_path: Path) -> None:
    make_bare_hub(tmp_path / "hub.git")
    with served(tmp_path) as url:
        with pytest.raises(UsageError, match="has no commit 'nowhere'"):
            check_hub(f"{url}/hub.git", "nowhere", None)
        with pytest.raises(UsageError, match="cannot be read"):
            check_hub(f"{url}/other.git", None, None)


def test_submodules_and_lfs_are_seen_in_a_url_hub_too(tmp_path: Path) -> None:
    make_bare_hub(tmp_path / "hub.git", {".gitattributes": "*.bin filter=lfs\n"})
    with served(tmp_path) as url, pytest.raises(UsageError, match="Git LFS"):
        check_hub(f"{url}/hub.git", None, None)


def test_a_url_that_would_run_a_program_is_refused(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    with pytest.raises(UsageError, match="transport 'ext' not allowed"):
        check_hub(f"ext::touch {marker}", None, None)
    with pytest.raises(UsageError):
        check_hub(f"--upload-pack=touch {marker}", None, None)
    assert not marker.exists()
