"""`flow.crw.integrate`: merge the given heads onto a branch of the hub, all or none.

The heads are merged in the order of their keys, one merge commit each, in a private
checkout of the target's tip; then one atomic push moves target and guard. A target
that moved meanwhile is merged anew. What this request already pushed is recognised
by its trailer, so a lost answer never merges twice. A conflict and a refused push are
results, not errors. Source: journal document, "Other effects"; rules of the protocol, 7 and 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.base.crashpoint import crashpoint
from shared.base.log import get_logger
from shared.hub.git import git_error
from shared.hub.guard import move_guard, push_guarded
from shared.hub.push import Pushed, patiently
from shared.hub.refs import branch_ref, guard_ref, read_refs
from shared.model.ops import parse_arguments
from shared.model.rows import NewCallRow
from workers.ops.checkout import private_checkout
from workers.ops.op import OpContext, OpResult
from workers.ops.rights import announce, require_right, stamp_of
from workers.worktrees.commit import REQUEST_TRAILER, make_commit, with_trailers

_TRIES = 5


class Integrate:
    """Merges heads onto the run's target, or the branch the script names."""

    name = "integrate"

    def parse(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return parse_arguments(self.name, arguments)

    def run(self, context: OpContext) -> OpResult:
        batch = _Batch(context)
        if context.claim.sent:
            # An earlier holder's push may still be on its way to the hub: from here on it moves nothing.
            batch.shut_out()
        batch.fetch_heads()
        reason = ""
        for _ in range(_TRIES):
            seen = batch.look()
            own = batch.find_own(seen)
            if own is not None:
                return batch.merged(own, seen)
            try:
                commit = batch.merge(seen)
            except _Conflict as conflict:
                return batch.not_merged(str(conflict), conflict.files)
            if commit == seen.tip:
                return batch.merged(commit, seen)
            pushed = batch.push(seen, commit)
            if pushed.ok:
                crashpoint("after:push")
                return batch.merged(commit, seen)
            reason = pushed.reason
            if not batch.moved(seen):
                return batch.not_merged(f"the hub refused the push: {reason}", [])
        return batch.not_merged(f"the target moved {_TRIES} times while it was merged: {reason}", [])


class _Conflict(Exception):
    """A head does not merge. `files` are those with conflicts."""

    def __init__(self, key: str, files: list[str]) -> None:
        super().__init__(f"{key} conflicts with what is merged already, in {', '.join(files)}")
        self.files = files


@dataclass(frozen=True)
class _Seen:
    """The hub at one moment. `tip` and `guard` are None where there is no such ref yet."""

    tip: str | None
    guard: str | None


class _Batch:
    """One integrate: the heads in order, and what to do with them."""

    def __init__(self, context: OpContext) -> None:
        arguments, claim = context.arguments, context.claim
        self._context = context
        self._git = context.mirrors.git
        self._heads: list[tuple[str, str]] = sorted(arguments["heads"].items())
        self._target: str = arguments.get("target") or context.spec.target_branch(claim.run_id)
        self._ref = branch_ref(self._target)
        self._mirror: Path = context.mirrors.path_of(context.spec.hub)

    def shut_out(self) -> None:
        """Move the guard away from under the pushes of whoever had this call before."""
        context, claim = self._context, self._context.claim
        require_right(context)

        def move() -> str:
            return move_guard(self._git, context.spec.hub, claim.run_id, f"{claim.call_id} {claim.fence}")

        patiently(move, context.should_stop, context.spec.call_deadline_seconds)
        get_logger().info("guard_moved", run=claim.run_id, call=claim.call_id)

    def fetch_heads(self) -> None:
        """Have all heads and the base in the mirror."""
        needs = [self._context.spec.base, *(commit for _, commit in self._heads)]
        self._context.mirrors.ensure(self._context.spec.hub, self._context.claim.run_id, needs)

    def look(self) -> _Seen:
        """The target and the guard now, read before the intent that a push under them needs."""
        context, guard = self._context, guard_ref(self._context.claim.run_id)

        def read() -> _Seen:
            found = read_refs(self._git, context.spec.hub, self._ref, guard)
            return _Seen(found.get(self._ref), found.get(guard))

        seen = patiently(read, context.should_stop, context.spec.call_deadline_seconds)
        if seen.tip is not None:
            context.mirrors.ensure(context.spec.hub, context.claim.run_id, [seen.tip])
        return seen

    def moved(self, seen: _Seen) -> bool:
        """Whether target or guard are others now than when they were seen."""
        return self.look() != seen

    def find_own(self, seen: _Seen) -> str | None:
        """The last merge that this very request has on the target already, holding all heads."""
        if seen.tip is None:
            return None
        trailer = f"%(trailers:key={REQUEST_TRAILER},valueonly,separator=%x2C)"
        since = f"^{self._context.spec.base}"
        listed = self._git.run(self._mirror, "log", "--merges", f"--format=%H {trailer}", seen.tip, since, "--").line
        for line in listed.split("\n"):
            commit, _, requests = line.partition(" ")
            if requests.strip() == self._context.claim.request_id and all(
                self._contains(commit, head) for _, head in self._heads
            ):
                return commit
        return None

    def merge(self, seen: _Seen) -> str:
        """All heads merged onto the target as it was seen; nothing outside the private checkout changes.

        Raises:
            _Conflict: one of them does not merge.
        """
        current = seen.tip or self._context.spec.base
        if all(self._contains(current, head) for _, head in self._heads):
            return current
        with private_checkout(self._context, current) as checkout:
            for key, head in self._heads:
                if not self._contains(current, head):
                    current = self._merge_one(checkout, current, key, head)
        return current

    def _merge_one(self, checkout: Path, current: str, key: str, head: str) -> str:
        context, claim = self._context, self._context.claim
        arguments = ("merge", "--no-ff", "--no-commit", "--no-edit", "--quiet", "-s", "ort", head)
        merged = self._git.run(checkout, *arguments, check=False, env=stamp_of(context).environment())
        if merged.exit_status != 0:
            files = self._git.run(checkout, "diff", "--name-only", "--diff-filter=U", "-z").records
            if files:
                raise _Conflict(key, files)
            raise git_error(arguments, merged)
        tree = self._git.run(checkout, "write-tree").line
        subject = context.arguments.get("message") or f"Merge {key} into {self._target}"
        message = with_trailers(subject, claim.run_id, claim.call_id, claim.request_id)
        commit = make_commit(self._git, checkout, tree, [current, head], message, stamp_of(context))
        # Index and files hold the merge already; only HEAD has to learn of it.
        self._git.run(checkout, "merge", "--quit")
        self._git.run(checkout, "update-ref", "--no-deref", "HEAD", commit)
        return commit

    def push(self, seen: _Seen, commit: str) -> Pushed:
        """Move the target, and the guard with it; a lost answer is settled by looking."""
        context, claim = self._context, self._context.claim
        detail = {"ref": self._ref, "commit": commit, "expect": seen.tip, "guard": seen.guard}
        announce(context, NewCallRow("push_requested", detail))

        def attempt() -> Pushed:
            return push_guarded(
                self._git,
                self._mirror,
                context.spec.hub,
                claim.run_id,
                {self._ref: commit},
                {self._ref: seen.tip},
                seen.guard,
                f"{claim.call_id} {claim.request_id}",
            )

        return patiently(attempt, context.should_stop, context.spec.call_deadline_seconds)

    def _contains(self, commit: str, head: str) -> bool:
        return self._git.run(self._mirror, "merge-base", "--is-ancestor", head, commit, check=False).exit_status == 0

    def merged(self, commit: str | None, seen: _Seen) -> OpResult:
        """The result when the target holds all heads."""
        output: dict[str, Any] = {
            "merged": True,
            "commit": commit,
            "target": self._target,
            "conflicts": [],
            "reason": None,
        }
        return OpResult(output, {"commit_sha": commit}, {"ref": self._ref, "commit": commit, "from": seen.tip})

    def not_merged(self, reason: str, conflicts: list[str]) -> OpResult:
        """The result when the target is as it was."""
        output: dict[str, Any] = {
            "merged": False,
            "commit": None,
            "target": self._target,
            "conflicts": conflicts,
            "reason": reason,
        }
        return OpResult(output, facts={"ref": self._ref, "reason": reason})
