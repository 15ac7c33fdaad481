"""The working snapshot, each case on a real worktree."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from shared.base.errors import WorktreeError
from shared.hub.git import Git
from tests.repositories import commit_files, git, make_repository, write_files
from workers.worktrees.snapshot import settled_snapshot, snapshot

FILES = {
    "kept.txt": "kept\n",
    "gone.txt": "gone\n",
    "mode.sh": "echo\n",
    "sub/deep.txt": "deep\n",
    ".gitignore": "*.log\nbuild/\n",
}


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    repository = make_repository(tmp_path / "repository", FILES)
    git(repository, "worktree", "add", "-q", "--detach", str(tmp_path / "wt"))
    return tmp_path / "wt"


def content(worktree: Path, tree: str) -> dict[str, str]:
    """path -> mode of everything in a tree."""
    listed = git(worktree, "ls-tree", "-r", "-z", tree).split("\0")
    return {line.split("\t", 1)[1]: line.split(" ", 1)[0] for line in listed if line}


def blob(worktree: Path, tree: str, path: str) -> str:
    return git(worktree, "cat-file", "blob", f"{tree}:{path}")


def take(worktree: Path) -> str:
    return snapshot(Git(60), worktree)


@pytest.mark.req("W19")
def test_an_untouched_worktree_is_its_heads_tree(worktree: Path) -> None:
    assert take(worktree) == git(worktree, "rev-parse", "HEAD^{tree}")


@pytest.mark.req("W19")
def test_it_holds_changes_deletions_modes_links_and_new_files(worktree: Path) -> None:
    write_files(worktree, {"kept.txt": "changed\n", "new dir/new.txt": "new\n"})
    (worktree / "gone.txt").unlink()
    (worktree / "mode.sh").chmod(0o755)
    (worktree / "link").symlink_to("kept.txt")
    tree = take(worktree)
    assert content(worktree, tree) == {
        ".gitignore": "100644",
        "kept.txt": "100644",
        "link": "120000",
        "mode.sh": "100755",
        "new dir/new.txt": "100644",
        "sub/deep.txt": "100644",
    }
    assert blob(worktree, tree, "kept.txt") == "changed"


@pytest.mark.req("W19")
def test_the_real_index_and_the_working_files_are_not_written(worktree: Path) -> None:
    index = Path(git(worktree, "rev-parse", "--absolute-git-dir")) / "index"
    write_files(worktree, {"kept.txt": "changed\n", "new.txt": "new\n"})
    git(worktree, "add", "new.txt")
    before = (hashlib.sha256(index.read_bytes()).hexdigest(), index.stat().st_mtime_ns)
    take(worktree)
    assert (hashlib.sha256(index.read_bytes()).hexdigest(), index.stat().st_mtime_ns) == before
    assert not [name for name in os.listdir(index.parent) if name.startswith("crw-snapshot")]


@pytest.mark.req("W20")
def test_an_ignored_file_that_nobody_tracks_is_left_out(worktree: Path) -> None:
    write_files(worktree, {"debug.log": "x", "build/out": "x"})
    assert take(worktree) == git(worktree, "rev-parse", "HEAD^{tree}")


@pytest.mark.req("W20", "K31")
def test_an_ignored_file_that_head_tracks_is_held_with_its_new_content(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "r", {".gitignore": "*.log\n", "kept.log": "old\n"})
    write_files(repository, {"kept.log": "new\n"})
    assert blob(repository, take(repository), "kept.log") == "new"


@pytest.mark.req("W20", "K31")
def test_an_ignored_file_that_only_the_index_tracks_is_held(worktree: Path) -> None:
    write_files(worktree, {"forced [1].log": "forced\n", "sub/forced.log": "forced\n", "other.log": "x"})
    git(worktree, "add", "-f", "forced [1].log", "sub/forced.log")
    write_files(worktree, {"forced [1].log": "later\n"})
    tree = take(worktree)
    assert blob(worktree, tree, "forced [1].log") == "later" and "other.log" not in content(worktree, tree)
    assert "sub/forced.log" in content(worktree, tree)


@pytest.mark.req("K31")
def test_a_file_that_was_removed_from_the_index_alone_stays(worktree: Path) -> None:
    git(worktree, "rm", "-q", "--cached", "kept.txt")
    assert take(worktree) == git(worktree, "rev-parse", "HEAD^{tree}")


@pytest.mark.req("W23")
def test_staged_content_that_is_not_on_disk_does_not_leak_in(worktree: Path) -> None:
    write_files(worktree, {"kept.txt": "staged\n", "staged only.txt": "staged\n"})
    git(worktree, "add", "-A")
    write_files(worktree, {"kept.txt": "on disk\n"})
    (worktree / "staged only.txt").unlink()
    tree = take(worktree)
    assert blob(worktree, tree, "kept.txt") == "on disk"
    assert "staged only.txt" not in content(worktree, tree)


@pytest.mark.req("W21")
def test_assume_unchanged_hides_nothing(worktree: Path) -> None:
    git(worktree, "update-index", "--assume-unchanged", "kept.txt")
    write_files(worktree, {"kept.txt": "changed\n"})
    assert blob(worktree, take(worktree), "kept.txt") == "changed"
    assert git(worktree, "ls-files", "-v", "kept.txt") == "h kept.txt"


@pytest.mark.req("W21")
def test_skip_worktree_hides_no_file_that_is_there(worktree: Path) -> None:
    git(worktree, "update-index", "--skip-worktree", "kept.txt")
    write_files(worktree, {"kept.txt": "changed\n"})
    assert blob(worktree, take(worktree), "kept.txt") == "changed"
    assert git(worktree, "ls-files", "-v", "kept.txt") == "S kept.txt"


@pytest.mark.req("W21", "K31")
def test_a_sparse_checkout_is_no_deletion(worktree: Path) -> None:
    git(worktree, "sparse-checkout", "set", "--no-cone", "/*", "!/sub/")
    assert not (worktree / "sub").exists()
    write_files(worktree, {"kept.txt": "changed\n"})
    tree = take(worktree)
    assert blob(worktree, tree, "sub/deep.txt") == "deep" and blob(worktree, tree, "kept.txt") == "changed"


@pytest.mark.req("W21", "K31")
def test_an_absent_sparse_entry_has_its_index_content_and_a_present_one_its_own(worktree: Path) -> None:
    git(worktree, "update-index", "--skip-worktree", "kept.txt", "gone.txt")
    other = git(worktree, "hash-object", "-w", "--stdin", input=b"from the index\n")
    git(worktree, "update-index", "--cacheinfo", f"100644,{other},gone.txt")
    git(worktree, "update-index", "--skip-worktree", "gone.txt")
    (worktree / "gone.txt").unlink()
    write_files(worktree, {"kept.txt": "from disk\n"})
    tree = take(worktree)
    assert blob(worktree, tree, "gone.txt") == "from the index" and blob(worktree, tree, "kept.txt") == "from disk"


@pytest.mark.req("W22")
def test_a_directory_whose_name_ends_in_a_space_is_the_one_that_is_read(worktree: Path) -> None:
    spaced = worktree.with_name("wt ")
    git(worktree, "worktree", "add", "-q", "--detach", str(spaced))
    write_files(worktree, {"kept.txt": "the other one\n"})
    write_files(spaced, {" leading.txt": "x\n"})
    tree = take(spaced)
    assert blob(worktree, tree, "kept.txt") == "kept" and " leading.txt" in content(worktree, tree)


@pytest.mark.req("W18")
def test_hostile_git_variables_do_not_redirect_it(worktree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(worktree, {"kept.txt": "changed\n"})
    expected = take(worktree)
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_WORK_TREE", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    assert take(worktree) == expected


def test_a_file_whose_name_is_no_text_is_held(worktree: Path) -> None:
    with open(os.fsencode(worktree) + b"/\xff\xfe.txt", "wb") as file:
        file.write(b"x")
    assert len(content(worktree, take(worktree))) == len(FILES) + 1


def test_a_directory_in_the_place_of_a_tracked_file_and_a_link_in_that_of_a_directory(worktree: Path) -> None:
    (worktree / "gone.txt").unlink()
    write_files(worktree, {"gone.txt/inside": "x"})
    (worktree / "sub/deep.txt").unlink()
    (worktree / "sub").rmdir()
    (worktree / "sub").symlink_to("gone.txt")
    held = content(worktree, take(worktree))
    assert held["gone.txt/inside"] == "100644" and held["sub"] == "120000" and "sub/deep.txt" not in held


def test_a_nested_repository_without_a_commit_is_refused_by_name(worktree: Path) -> None:
    git(worktree, "init", "-q", "nested/empty")
    with pytest.raises(WorktreeError, match=r"nested/empty in .* is a repository of its own") as caught:
        take(worktree)
    assert caught.value.facts["path"] == "nested/empty"


def test_a_nested_repository_with_a_commit_is_refused_by_name(worktree: Path) -> None:
    make_repository(worktree / "nested")
    with pytest.raises(WorktreeError, match=r"nested in .* is a repository of its own"):
        take(worktree)


def test_an_ignored_nested_repository_is_no_trouble(worktree: Path) -> None:
    make_repository(worktree / "build/dependency")
    assert take(worktree) == git(worktree, "rev-parse", "HEAD^{tree}")


def test_a_required_filter_that_fails_is_an_error_with_its_words(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "r")
    git(repository, "config", "filter.broken.clean", "false")
    git(repository, "config", "filter.broken.required", "true")
    write_files(repository, {".gitattributes": "*.dat filter=broken\n", "a.dat": "x"})
    with pytest.raises(WorktreeError, match=r"a\.dat: clean filter 'broken' failed"):
        take(repository)


def test_a_worktree_without_its_git_file_never_becomes_the_repository_above(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "r")
    git(repository, "worktree", "add", "-q", "--detach", "inside/wt")
    (repository / "inside/wt/.git").unlink()
    with pytest.raises(WorktreeError, match="is no worktree any more"):
        take(repository / "inside/wt")


@pytest.mark.req("RULE15")
def test_a_settled_snapshot_is_two_equal_ones(worktree: Path) -> None:
    write_files(worktree, {"kept.txt": "changed\n"})
    assert settled_snapshot(Git(60), worktree) == take(worktree)


@pytest.mark.req("RULE15")
def test_a_directory_that_keeps_changing_never_settles(worktree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = iter(range(100))

    def writing(runner: Git, directory: Path) -> str:
        write_files(directory, {"kept.txt": f"{next(count)}\n"})
        return snapshot(runner, directory)

    monkeypatch.setattr("workers.worktrees.snapshot.snapshot", writing)
    with pytest.raises(WorktreeError, match="keeps changing"):
        settled_snapshot(Git(60), worktree)


def test_committed_changes_of_a_worktree_are_part_of_it(worktree: Path) -> None:
    commit_files(worktree, {"more.txt": "more\n"})
    assert "more.txt" in content(worktree, take(worktree))
