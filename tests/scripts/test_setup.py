"""The set-up installs the sets of packages that are asked for, each once, from lock files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = {
    path.stem.removeprefix("requirements").lstrip("-"): path
    for path in ROOT.glob("requirements*.lock")
}
REQUIREMENT = re.compile(r"([a-z0-9.-]+)==(\S+)( ; [^\\]+)? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")

# Makes environments that hold a copy of itself, and writes down what pip is asked to install.
PYTHON = """#!/usr/bin/env bash
case "$1 ${2:-}" in
  "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  "-m pip") echo "$*" >>"$(dirname "$0")/../../installed" ;;
esac
"""


class Checkout:
    """A folder with the set-up script, lock files and a stand-in for Python."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "scripts").mkdir()
        shutil.copy(ROOT / "scripts" / "setup.sh", root / "scripts")
        for name in ("requirements.lock", "requirements-gpu.lock", "requirements-dev.lock"):
            (root / name).write_text(f"{name} 1\n")
        (root / "pyproject.toml").write_text("1\n")
        self.python = root / "python"
        self.python.write_text(PYTHON)
        self.python.chmod(0o755)

    def set_up(self, extras: str | None = None) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"NMT_PYTHON": str(self.python)}
        environment.pop("NMT_EXTRAS", None)
        if extras is not None:
            environment["NMT_EXTRAS"] = extras
        return subprocess.run(
            ["bash", self.root / "scripts" / "setup.sh"],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )

    def installs(self, extras: str | None = None) -> list[str] | None:
        """Set up; return the lock files that packages were installed from, None for no install."""
        log = self.root / "installed"
        log.unlink(missing_ok=True)
        done = self.set_up(extras)
        assert done.returncode == 0, done.stderr
        if not log.exists():
            return None
        packages, project = log.read_text().splitlines()
        assert "--require-hashes" in packages
        assert f"--editable {self.root}" in project
        return re.findall(r"--requirement=\S*/(\S+)", packages)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_a_set_is_installed_once_and_stays(checkout: Checkout) -> None:
    both = ["requirements.lock", "requirements-gpu.lock"]
    assert checkout.installs("gpu") == both
    assert checkout.installs("gpu") is None
    assert checkout.installs() is None
    (checkout.root / "requirements-gpu.lock").write_text("2\n")
    assert checkout.installs() == both


def test_a_set_is_added_to_what_is_there(checkout: Checkout) -> None:
    assert checkout.installs() == ["requirements.lock"]
    (checkout.root / "requirements-dev.lock").write_text("of a set that is not installed\n")
    assert checkout.installs() is None
    assert checkout.installs("gpu") == ["requirements.lock", "requirements-gpu.lock"]
    every = ["requirements.lock", "requirements-dev.lock", "requirements-gpu.lock"]
    assert checkout.installs("dev") == every
    assert checkout.installs("gpu,dev") is None
    assert checkout.installs("dev gpu") is None


def test_an_unknown_set_is_rejected(checkout: Checkout) -> None:
    done = checkout.set_up("cuda")
    assert done.returncode == 2
    assert done.stderr == "setup: NMT_EXTRAS=cuda is unknown; choose from: dev gpu\n"
    assert not (checkout.root / ".venv").exists()


def test_an_interrupted_install_is_tried_again(checkout: Checkout) -> None:
    assert checkout.installs() == ["requirements.lock"]
    python = checkout.root / ".venv" / "bin" / "python"
    python.write_text('#!/usr/bin/env bash\n[[ "$2" != pip ]]\n')
    assert checkout.set_up("gpu").returncode == 1
    python.write_text(PYTHON)
    assert checkout.installs() == ["requirements.lock"]  # some packages may be those of gpu
    assert checkout.installs("gpu") == ["requirements.lock", "requirements-gpu.lock"]


def test_an_environment_that_cannot_be_used_is_made_anew(checkout: Checkout) -> None:
    all_locks = ["requirements.lock"]
    assert checkout.installs() == all_locks
    python = checkout.root / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to(checkout.root / "removed")  # the interpreter was upgraded away
    assert checkout.installs() == all_locks
    assert checkout.installs() is None
    (checkout.root / ".venv" / ".locked").unlink()
    python.write_text(PYTHON.replace("esac", '  "-c import pip") exit 1 ;;\nesac'))
    assert checkout.installs() == all_locks
    assert python.read_text() == PYTHON


def test_a_checkout_that_was_moved_gets_a_new_environment(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    checkout = Checkout(old)
    both = ["requirements.lock", "requirements-gpu.lock"]
    assert checkout.installs("gpu") == both
    (old / ".venv" / "bin" / "script").write_text(f"#!{old}/.venv/bin/python\n")
    checkout.root, checkout.python = old.rename(new), new / "python"
    assert checkout.installs() == both
    assert not (new / ".venv" / "bin" / "script").exists()


def pins(lock: Path) -> dict[tuple[str, str], str]:
    """Return the version of each package and marker of a lock file."""
    lines = lock.read_text(encoding="utf-8").splitlines()
    found: dict[tuple[str, str], str] = {}
    for line in lines:
        if match := REQUIREMENT.fullmatch(line):
            name, version, marker = match.groups()
            found[name, marker or ""] = version
        else:
            assert line.startswith("#") or HASH.fullmatch(line), f"{lock.name}: {line}"
    return found


def test_locks_hold_names_versions_and_hashes_alone() -> None:
    assert sorted(LOCKS) == ["", "dev", "gpu", "jax", "jax-gpu"]
    for lock in LOCKS.values():
        text = lock.read_text(encoding="utf-8")
        assert pins(lock)
        assert "://" not in text
        assert len(re.findall("^[a-z]", text, re.MULTILINE)) == len(
            re.findall(r"^[a-z].*\n    --hash", text, re.MULTILINE)
        )


def test_any_sets_can_be_installed_together() -> None:
    every: dict[tuple[str, str], str] = {}
    for lock in LOCKS.values():
        found = pins(lock)
        assert all(every.get(package, version) == version for package, version in found.items())
        every |= found
    base = pins(LOCKS[""])
    for name, lock in LOCKS.items():
        assert not name or not base.keys() & pins(lock).keys()


def test_sets_bring_what_they_are_for() -> None:
    names = {name: {package for package, _ in pins(lock)} for name, lock in LOCKS.items()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert LOCKS.keys() - {"", "dev"} <= extras.keys()
    assert {"nvidia-cudnn-cu12", "nvidia-cuda-nvcc-cu12"} <= names["gpu"]
    assert {"jax", "jax-cuda12-plugin", "nvidia-cudnn-cu12"} <= names["jax-gpu"]
    assert "pytest" in names["dev"]
    for listed in (
        project["dependencies"],
        *(extras[e] for e in ("serve", "prepare", "documents")),
    ):
        # Lock files have normalised names.
        assert {re.split("[<>=]", line)[0].replace(".", "-") for line in listed} <= names[""]
    assert not names[""] & {"jax", "pytest", "playwright", "nvidia-cudnn-cu12"}
