"""Builds of the helper's sources for tests: with a C library, the sanitisers and a kernel of the test's own. None of it is
part of the product, and the sources are compiled as they are.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from isandbox_backends._shared import start
from isandbox_backends._shared.helper import HelperProgram

HELPER = Path(__file__).parents[3] / "backends" / "helper"
NATIVE = Path(__file__).parent / "native"
SANITISED = [
    "-std=gnu11", "-O1", "-g", "-fno-omit-frame-pointer", "-fno-builtin", "-DSTACK_SIZE=131072", "-Wall", "-Wextra", "-Werror", "-Wno-return-type",
    "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-include", str(NATIVE / "kernel.h"),
]  # fmt: skip


def run(*command: str | Path) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@dataclass
class Workshop:
    """Object files of one kind, compiled once. ``changed`` gives another text to some of the helper's sources."""

    directory: Path
    compiler: str
    flags: list[str] = field(default_factory=lambda: list(SANITISED))

    def object(self, source: Path, text: str | None = None) -> Path:
        made = self.directory / f"{source.stem}.o"
        if text is not None:
            source = self.directory / f"changed-{source.name}"
            source.write_text(text)
            made = source.with_suffix(".o")
        if text is not None or not made.exists():
            run(self.compiler, *self.flags, "-I", HELPER, "-I", NATIVE, "-c", source, "-o", made)
        return made

    def link(self, name: str, objects: list[Path]) -> Path:
        program = self.directory / name
        sanitisers = ["-fsanitize=address,undefined", "-static-libasan", "-static-libubsan"]
        run(self.compiler, *sanitisers, "-o", program, *objects)
        return program

    def hosted(self, name: str = "hosted", changed: dict[str, str] | None = None) -> Path:
        """The helper with `hosted.c` as its start. ``changed``: file name to text."""
        changed = changed or {}
        objects = [self.object(path, changed.get(path.name)) for path in sorted(HELPER.glob("*.c")) if path.name != "start.c"]
        begin = self.object(HELPER / "start.c")
        renamed = begin.with_name("start-renamed.o")
        run("objcopy", "--redefine-sym", "_start=helper_entry", "--redefine-sym", "clone_call=task_on_stack", begin, renamed)
        return self.link(name, [*objects, renamed, self.object(NATIVE / "hosted.c")])


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed: apt-get install gcc libc6-dev")
    return Workshop(tmp_path_factory.mktemp("workshop"), compiler)


@dataclass(frozen=True)
class Sanitised:
    """A build of the helper that reports what it did wrong in a file."""

    program: Path
    reports: Path

    def as_helper(self) -> HelperProgram:
        return HelperProgram(str(self.program), ("isandbox-helper", str(self.reports)))

    def report(self) -> str:
        """What has been reported since the last call."""
        text = self.reports.read_text(errors="replace")
        self.reports.write_text("")
        return text


Sanitise = Callable[[dict[str, str]], Sanitised]


@pytest.fixture(scope="session")
def sanitise(workshop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Sanitise:
    """``sanitise(changed)``: a sanitised helper, with the sources in ``changed`` replaced."""

    def build(changed: dict[str, str]) -> Sanitised:
        reports = tmp_path_factory.mktemp("reports") / "report"
        reports.write_text("")
        return Sanitised(workshop.hosted(f"hosted-{reports.parent.name}", changed), reports)

    return build


@pytest.fixture(scope="session")
def sanitised(sanitise: Sanitise) -> Sanitised:
    return sanitise({})


@pytest.fixture(scope="class")
def with_sanitised_helper(sanitised: Sanitised) -> Iterator[Sanitised]:
    """Every native sandbox of the class has the sanitised helper."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(start, "_native", sanitised.as_helper)
        yield sanitised
