"""`python -m tests.contract`: the suite on the fake and on every supported App Server.

Writes: build/contract.json, `{"hosts": {name: {"passed": n, "failed": n}}}`.
A version that cannot be had counts as failed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.contract.hosts import DOWNLOADS, FAKE, installed_version, program_of

SUPPORTED = ("0.154.0", "0.162.1", "0.163.0")
_ROOT = Path(__file__).resolve().parents[2]
_REPORT = _ROOT / "build" / "contract.json"


def fetch(version: str) -> str | None:
    """Have the executable of a version. What went wrong, or None."""
    program = program_of(version)
    if program is None or program.is_file():
        return None
    target = DOWNLOADS / version
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--target", str(target)]
    wanted = f"openai-codex-cli-bin=={version}"
    ended = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, wanted], stderr=subprocess.PIPE, text=True
    )
    if ended.returncode == 0 and program.is_file():
        return None
    return ended.stderr.strip()[-500:] or "the package has no executable"


def main() -> int:
    """Fetch, run, report. 0 when every case passed on every host."""
    _REPORT.parent.mkdir(parents=True, exist_ok=True)
    _REPORT.unlink(missing_ok=True)
    missing = {version: why for version in SUPPORTED if (why := fetch(version)) is not None}
    for version, why in missing.items():
        print(f"codex {version} cannot be had: {why}", file=sys.stderr)
    hosts = [FAKE, *(version for version in SUPPORTED if version not in missing)]
    suite = str(Path(__file__).parent)
    options = ["--hosts", ",".join(hosts), "--contract-report", str(_REPORT)]
    status = subprocess.run([sys.executable, "-m", "pytest", suite, *options], cwd=_ROOT).returncode
    report = json.loads(_REPORT.read_text()) if _REPORT.exists() else {"hosts": {}}
    for version in missing:
        report["hosts"][version] = {"passed": 0, "failed": 1}
    _REPORT.write_text(json.dumps(report, indent=2) + "\n")
    for name, counts in report["hosts"].items():
        print(f"{name:10} {counts['passed']:4} passed {counts['failed']:4} failed")
    print(f"installed: {installed_version()}; written: {_REPORT.relative_to(_ROOT)}")
    return status or bool(missing)


if __name__ == "__main__":
    sys.exit(main())
