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

    def link(self, name: str, objects: list[Path], *flags: str) -> Path:
        program = self.directory / name
        static = [] if "clang" in self.compiler else ["-static-libasan", "-static-libubsan"]
        run(self.compiler, "-fsanitize=address,undefined", *static, *flags, "-o", program, *objects)
        return program

    def hosted(self, name: str = "hosted", changed: dict[str, str] | None = None) -> Path:
        """The helper with `hosted.c` as its start. ``changed``: file name to text."""
        changed = changed or {}
        objects = [self.object(path, changed.get(path.name)) for path in sorted(HELPER.glob("*.c")) if path.name != "start.c"]
        begin = self.object(HELPER / "start.c")
        renamed = begin.with_name("start-renamed.o")
        run("objcopy", "--redefine-sym", "_start=helper_entry", "--redefine-sym", "clone_call=task_on_stack", begin, renamed)
        return self.link(name, [*objects, renamed, self.object(NATIVE / "hosted.c")])

    def target(self, kind: str, changed: dict[str, str] | None = None, *, flags: tuple[str, ...] = ()) -> Path:
        """The fuzz target ``fuzz_KIND.c``: the helper, and a kernel that does nothing. ``flags`` bring an engine; without
        them `driver.c` is the engine.
        """
        changed = changed or {}
        inside = {"procs.c", "loop.c", "clients.c", *(("serve.c", "command.c") if kind == "requests" else ())}
        apart = [path for path in sorted(HELPER.glob("*.c")) if path.name not in inside | {"start.c"}]
        objects = [self.object(path, changed.get(path.name)) for path in apart]
        for name in inside & changed.keys():
            (self.directory / name).write_text(changed[name])
        own = NATIVE / f"fuzz_{kind}.c"
        objects += [self.object(NATIVE / "fake_kernel.c"), self.object(own, own.read_text() if changed else None)]
        if not flags:
            objects.append(self.directory / "driver.o")
            run(self.compiler, "-O1", "-Wall", "-Wextra", "-Werror", "-c", NATIVE / "driver.c", "-o", objects[-1])
        program = self.link(f"{kind}{'-changed' if changed else ''}", objects, *flags)
        for name in inside & changed.keys():
            (self.directory / name).unlink()
        return program


def fuzzing(directory: Path, compiler: str, *coverage: str) -> Workshop:
    """Nobody runs on the stacks of a fuzz target: they are short, so that a run costs little. Includes are looked for where
    the objects are first: a changed source stands there.
    """
    flags = [flag.replace("131072", "64") for flag in SANITISED if flag != "-Werror"]
    return Workshop(directory, compiler, [*flags, "-DINLINE_REQUEST=64", *coverage, "-I", str(directory)])


@pytest.fixture(scope="session")
def gcc() -> str:
    found = shutil.which("gcc")
    if found is None:
        pytest.skip("gcc is not installed: apt-get install gcc libc6-dev")
    return found


@pytest.fixture(scope="session")
def fuzz_workshop(gcc: str, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return fuzzing(tmp_path_factory.mktemp("fuzz"), gcc, "-fsanitize-coverage=trace-pc")


@pytest.fixture(scope="session")
def engine_workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """With clang's libFuzzer."""
    names = ["clang", *(f"clang-{version}" for version in range(25, 13, -1))]
    for clang in filter(None, map(shutil.which, names)):
        probe = tmp_path_factory.mktemp("engine")
        (probe / "probe.c").write_text("int LLVMFuzzerTestOneInput (const char *d, long n) { return !d && n; }\n")
        command = [clang, "-fsanitize=fuzzer,address,undefined", str(probe / "probe.c"), "-o", str(probe / "probe")]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return fuzzing(probe, clang, "-fsanitize=fuzzer-no-link")
    pytest.skip("clang with libFuzzer is not installed: apt-get install clang-14 libclang-rt-14-dev (or a later version)")


@pytest.fixture(scope="session")
def workshop(gcc: str, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("workshop"), gcc)


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
