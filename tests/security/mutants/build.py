"""Helpers with an altered line: a copy of the sources, compiled as the product is."""

from __future__ import annotations

import importlib.util
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from isandbox_mutants.frame import Change, Replacements

ROOT = Path(__file__).parents[3]
HELPER = ROOT / "backends" / "helper"


@dataclass
class Workshop:
    """Objects of the sources as they are, compiled once, and of the altered ones. ``flags``: those of the product."""

    directory: Path
    flags: Sequence[str]
    compiler: str = "cc"

    def helper(self, source: Replacements) -> Path:
        """Each text in ``source`` must stand in its file exactly once: a mutant that alters nothing proves nothing."""
        changed = {name: altered(name, changes) for name, changes in source.items()}
        program = self.directory / f"helper-{abs(hash(tuple(sorted(changed.items())))):x}"
        if not program.exists():
            objects = [self._object(path, changed.get(path.name)) for path in sorted(HELPER.glob("*.c"))]
            self._run("-o", program, *objects)
            program.chmod(0o755)
        return program

    def _object(self, source: Path, text: str | None) -> Path:
        made = self.directory / f"{source.stem}.o"
        if text is not None:
            source = self.directory / f"altered-{source.name}"
            source.write_text(text)
            made = source.with_suffix(".o")
        if text is not None or not made.exists():
            self._run("-w", "-I", HELPER, "-c", source, "-o", made)
        return made

    def _run(self, *arguments: str | Path) -> None:
        command = [self.compiler, *self.flags, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stderr


def altered(name: str, changes: Sequence[Change]) -> str:
    text = (HELPER / name).read_text()
    for old, new in changes:
        pattern = re.escape(old) if isinstance(old, str) else old
        text, count = re.subn(pattern, lambda _, new=new: new, text)
        assert count == 1, f"{name}: {count} times {old!r}"
    return text


def product_flags() -> list[str]:
    """As `hatch_build.py` has them."""
    spec = importlib.util.spec_from_file_location("isandbox_hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [*module.FLAGS, *module.MACHINE_FLAGS.get(platform.machine(), [])]


def compiler() -> str | None:
    return shutil.which("cc")
