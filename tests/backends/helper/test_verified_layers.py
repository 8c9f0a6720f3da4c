"""The helper's probes of itself: for each a helper with the mechanism taken out of its source, and plans that lost a layer.

Every start here must be refused by the missing layer's name, before a command can run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from isandbox import BackendUnavailableError, Quotas, SandboxError, Workspace
from isandbox.sync import ISandbox, create_sandbox
from isandbox_backends._shared import start
from isandbox_backends._shared.helper import HelperProgram
from isandbox_backends._shared.holding import usable_controllers
from isandbox_backends._shared.plan import IdMaps, Landlock, Mode, ModeRecord, Outside, Record, Seccomp
from isandbox_backends.seccomp import backend
from isandbox_backends.seccomp.filter import RET_ALLOW

pytestmark = pytest.mark.native
ROOT = Path(__file__).parents[3]
HELPER = ROOT / "backends" / "helper"
sys.path.insert(0, str(ROOT))
try:
    from hatch_build import FLAGS, MACHINE_FLAGS  # the product's own build
finally:
    sys.path.remove(str(ROOT))
AS_ROOT = os.geteuid() == 0

# name -> the layer whose name the refusal must have, and what is changed: file, what stands there, what takes its place.
FLAGS_LINE = ("launch.c", "~(u64) CLONE_NEWNET)")
ATTRIBUTES = ("mounts.c", "attr = { bind->attributes, 0,")
PUT = ("covers.c", "must (SYS (move_mount, tree")
NO_NEW_PRIVS = ("confine.c", '  must (SYS (prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs", "");\n', "")
LOAD = 'must (SYS (prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), "seccomp", "load");'
MUTANTS: dict[str, tuple[str, list[tuple[str, str, str]]]] = {
    "ipc": ("ipc_namespace", [(*FLAGS_LINE, "~(u64) (CLONE_NEWNET | CLONE_NEWIPC))")]),
    "cgroup": ("cgroup_namespace", [(*FLAGS_LINE, "~(u64) (CLONE_NEWNET | CLONE_NEWCGROUP))")]),
    "uts": ("uts_namespace", [(*FLAGS_LINE, "~(u64) (CLONE_NEWNET | CLONE_NEWUTS))")]),
    # The kernel mounts no /proc for a pid namespace of somebody else's, so the mutant takes the host's.
    "pid": ("pid_namespace", [
        (*FLAGS_LINE, "~(u64) (CLONE_NEWNET | CLONE_NEWPID))"),
        ("mounts.c", 'must (SYS (mount, "proc", s, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, 0)', 'must (SYS (mount, "/proc", s, 0, 0x5000, 0)'),
    ]),
    "net": ("net_namespace", [("launch.c", '  must (SYS (setns, network.ns, CLONE_NEWNET), "network", "enter");\n', "")]),
    "map": ("ids", [("launch.c", "must (write_all ((int) fd, text, str_len (text))", 'must (write_all ((int) fd, "7 7 1", 5)')]),
    "ids": ("ids", [("launch.c", "  confine_forever ();\n", "  SYS (setresgid, 5, 5, 5);\n  confine_forever ();\n")]),
    "groups": ("groups", [("confine.c", '  must (SYS (setgroups, 0, 0), "setgroups", "");\n', "  static u32 some[1];\n  SYS (setgroups, 1, some);\n")]),
    "read-only root": ("mounts", [("mounts.c", 'must (SYS (mount_setattr, AT_FDCWD, "/", 0, &attr, sizeof attr), "read-only root", "")', "(void) attr")]),
    "read-only mounts": ("mounts", [(*ATTRIBUTES, "attr = { bind->attributes & ~1u, 0,")]),
    "nosuid": ("mounts", [(*ATTRIBUTES, "attr = { bind->attributes & ~2u, 0,")]),
    "nodev": ("mounts", [(*ATTRIBUTES, "attr = { bind->attributes & ~4u, 0,")]),
    "private": ("mounts", [("mounts.c", ", MS_PRIVATE, 0 };", ", 0x100000, 0 };")]),
    "detach": ("mounts", [("mounts.c", '  must (SYS (umount2, ".", MNT_DETACH), "detach the host\'s root", "");\n', "")]),
    "a mount": ("mounts", [("mounts.c", "else if (trees[n++] >= 0)", "else if (trees[n++] >= 0 && n != 2)")]),
    "a cover": ("mounts", [(*PUT, "if (target[0] != 'w') must (SYS (move_mount, tree")]),
    "a pin": ("mounts", [(*PUT, 'if (!str_prefix (target, "view-0/")) must (SYS (move_mount, tree')]),
    "a view": ("mounts", [(*PUT, 'if (!str_eq (target, "view-0")) must (SYS (move_mount, tree')]),
    "the ids' lock": ("descriptors", [("ids.c", "flags & IDS_CLAIM ? CLAIM_FD : -1", "flags & IDS_CLAIM ? -1 : CLAIM_FD")]),
    "bounding set": ("capabilities", [("confine.c", "(r = SYS (prctl, PR_CAPBSET_DROP, cap, 0, 0, 0)) == 0", "(r = cap < 41 ? 0 : -EINVAL) == 0")]),
    "capset": ("capabilities", [("confine.c", '  must (SYS (capset, &header, sets), "capset", "");\n', "  SYS (capget, &header, sets);\n")]),
    "inheritable": ("capabilities", [("confine.c", "  u32 sets[6] = { keep, keep, 0, 0, 0, 0 }, now[6];", "  u32 sets[6] = { keep | 1, keep | 1, 1, 0, 0, 0 }, now[6];")]),
    "securebits": ("capabilities", [("confine.c", '  must (SYS (prctl, PR_SET_SECUREBITS, SECUREBITS, 0, 0, 0), "securebits", "");\n', "")]),
    # The kernel wants it, or a capability, before Landlock and the filter: so the mutant drops its capabilities after them.
    "no_new_privs": ("no_new_privs", [
        NO_NEW_PRIVS, ("confine.c", "  drop_capabilities ();\n", ""), ("confine.c", LOAD, f"{LOAD}\n  drop_capabilities ();"),
    ]),
    "dumpable": ("dumpable", [("confine.c", "PR_SET_DUMPABLE, 0, 0, 0, 0", "PR_SET_DUMPABLE, 1, 0, 0, 0")]),
    "keyring": ("keyring", [("confine.c", 'must (SYS (keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0), "keyring", "")', "0")]),
    "landlock": ("landlock", [("confine.c", '  must (SYS (landlock_restrict_self, ruleset, 0), "landlock", "restrict");\n', "")]),
    "landlock rule": ("landlock", [("confine.c", "memcpy (&access, r.data, 8);", "memcpy (&access, r.data, 8);\n        access = ~0ull;")]),
    "seccomp": ("seccomp", [("confine.c", LOAD, "(void) program;")]),
    "a descriptor": ("descriptors", [("main.c", 'must (ids_close_others (), "start", "close descriptors")', "SYS (dup3, 0, 70, 0)")]),
    "a terminal": ("descriptors", [("main.c", 'long null = must (SYS (openat, AT_FDCWD, "/dev/null",', 'long null = must (SYS (openat, AT_FDCWD, "/dev/zero",')]),
}  # fmt: skip
ONLY_ROOT = {"ids", "groups", "the ids' lock"}
# With a workspace that has something to cover.
COVERED, DENY = {"a cover", "a pin", "a view"}, ("above/denied",)


@pytest.fixture
def workspace(sandbox_tmp: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=sandbox_tmp) as directory:
        Path(directory, "above", "denied").mkdir(parents=True)
        yield Path(directory)


@pytest.fixture(scope="module")
def tally() -> Iterator[dict[str, bool]]:
    """Mutants and whether each was refused by its layer's name; shown by pytest -s."""
    killed: dict[str, bool] = {}
    yield killed
    print(f"\nmutants of the helper: {sum(killed.values())} of {len(killed)} killed")


Build = Callable[[dict[str, str]], HelperProgram]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """``build(changed)``: the helper as the product builds it, of its sources with those in ``changed`` replaced."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("cc is not installed: apt-get install gcc libc6-dev")
    directory = tmp_path_factory.mktemp("mutants")
    command = [compiler, *FLAGS, *MACHINE_FLAGS.get(os.uname().machine, [])]

    def run(*arguments: str | Path) -> None:
        subprocess.run([*command, *map(str, arguments)], check=True, timeout=100)

    objects = {path.name: directory / f"{path.stem}.o" for path in HELPER.glob("*.c")}
    for name, made in objects.items():
        run("-c", HELPER / name, "-o", made)

    def build_one(changed: dict[str, str]) -> HelperProgram:
        place = Path(tempfile.mkdtemp(dir=directory))
        for name, text in changed.items():
            (place / name).write_text(text)
            run("-I", HELPER, "-c", place / name, "-o", place / f"{name}.o")
        parts = [place / f"{name}.o" if name in changed else made for name, made in objects.items()]
        run("-o", place / "helper", *parts)
        return HelperProgram(str(place / "helper"))

    return build_one


def without(name: str) -> dict[str, str]:
    changed: dict[str, str] = {}
    for file, found, instead in MUTANTS[name][1]:
        text = changed.get(file) or (HELPER / file).read_text()
        assert text.count(found) == 1, f"{name}: the source has changed; so must this mutant"
        changed[file] = text.replace(found, instead)
    return changed


def refusal(workspace: Path, deny: Sequence[str] = (), **options: object) -> str:
    """What a start is refused with; no command has run."""
    marker = workspace / "marker"
    with (
        pytest.raises(BackendUnavailableError) as caught,
        create_sandbox("seccomp", workspace=Workspace(str(workspace), deny=deny), **options) as sandbox,
    ):  # type: ignore[arg-type]
        sandbox.exec("touch marker")
    assert not marker.exists()
    return str(caught.value)


def absent(sandbox: Any) -> set[str]:
    """Layers that are not in force, but for what no quota needs and what an ordinary user with one id does not have."""
    words = sandbox.info.layers
    assert words["split_uid"].startswith("enforced" if AS_ROOT else ("enforced", "absent (one id: "))
    one_id = {"groups", "split_uid", "distinct_ids"} if words["split_uid"].startswith("absent") else set()
    return {name for name, word in words.items() if word.startswith("absent")} - one_id - {"cgroup"}


def test_the_copy_itself_starts(build: Build, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of all mutants: the sources unchanged, built the same way, make a sandbox with every layer in force."""
    program = build({})
    monkeypatch.setattr(start, "_native", lambda: program)
    with create_sandbox("seccomp", workspace=Workspace(str(workspace), deny=DENY)) as sandbox:
        assert absent(sandbox) == set()
        assert sandbox.exec("touch marker").ok
    assert (workspace / "marker").exists()


@pytest.mark.parametrize("name", MUTANTS)
def test_each_mechanism_that_is_taken_out_is_missed(
    name: str, build: Build, workspace: Path, tally: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A helper without one mechanism starts nothing, and the refusal has the layer's name."""
    if name in ONLY_ROOT and not AS_ROOT:
        pytest.skip("an ordinary user has one id, which needs no lock, and keeps its groups")
    program = build(without(name))
    monkeypatch.setattr(start, "_native", lambda: program)
    tally[name] = False
    assert f"the layer {MUTANTS[name][0]}" in refusal(workspace, DENY if name in COVERED else ())
    tally[name] = True


def modes(change: Callable[[ModeRecord], ModeRecord]) -> Callable[[list[Record]], list[Record]]:
    return lambda plan: [change(record) if isinstance(record, ModeRecord) else record for record in plan]


def each(kind: type, change: Callable[[Record], Record | None]) -> Callable[[list[Record]], list[Record]]:
    def edit(plan: list[Record]) -> list[Record]:
        changed = [change(record) if isinstance(record, kind) else record for record in plan]
        return [record for record in changed if record is not None]

    return edit


def no_flag(flag: int) -> Callable[[list[Record]], list[Record]]:
    return modes(lambda mode: replace(mode, clone_flags=mode.clone_flags & ~flag))


def allow_all(record: Record) -> Seccomp:
    del record
    return Seccomp(b"\x06\0\0\0" + RET_ALLOW.to_bytes(4, "little"))


def one_rule_less(record: Record) -> Seccomp:
    """The whole filter, but the last call that it refuses is allowed: no probe tries that one."""
    assert isinstance(record, Seccomp)
    code = [record.program[at : at + 8] for at in range(0, len(record.program), 8)]
    last = max(index for index, word in enumerate(code) if word[0] == 6 and word[6:8] == b"\x05\0")
    code[last] = b"\x06\0\0\0" + RET_ALLOW.to_bytes(4, "little")
    return Seccomp(b"".join(code))


PLANS: dict[str, tuple[str, Callable[[list[Record]], list[Record]]]] = {
    "no landlock": ("landlock", each(Landlock, lambda _: Landlock(0, 0))),
    "no device nodes in landlock": ("landlock", each(Landlock, lambda _: Landlock(1 << 2, 3))),
    "no filter": ("seccomp", each(Seccomp, allow_all)),
    "a rule less": ("seccomp", each(Seccomp, one_rule_less)),
    "no ipc namespace": ("ipc_namespace", no_flag(0x08000000)),
    "no cgroup namespace": ("cgroup_namespace", no_flag(0x02000000)),
    "no net namespace": ("net_namespace", modes(lambda mode: replace(
        mode, clone_flags=mode.clone_flags & ~0x40000000, flags=mode.flags & ~Mode.LOOPBACK))),
    "no uts namespace": ("uts_namespace", lambda plan: [
        record for record in no_flag(0x04000000)(plan) if type(record).__name__ != "Hostname"]),
    "no keyring": ("keyring", modes(lambda mode: replace(mode, flags=mode.flags & ~Mode.KEYRING))),
    "nothing known of outside": ("user_namespace", each(Outside, lambda _: None)),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_that_lost_a_layer_is_refused(name: str, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host compares what it asked for with what was found, not with the plan: a plan mutant starts nothing."""
    layer, edit = PLANS[name]
    compile_plan = backend.compile_plan
    monkeypatch.setattr(backend, "compile_plan", lambda *args, **more: edit(compile_plan(*args, **more)))
    assert f"the layer {layer} is not in force" in refusal(workspace)


@pytest.mark.skipif(not AS_ROOT, reason="an ordinary user has one id to map")
def test_a_plan_without_the_uid_split_is_refused(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root, commands that would be the helper's own user are never started."""
    compile_plan = backend.compile_plan

    def edit(plan: list[Record]) -> list[Record]:
        changed = modes(lambda mode: replace(mode, flags=mode.flags & ~Mode.SPLIT_UID))(plan)
        return [IdMaps("1000 1000 1", "1000 1000 1") if isinstance(record, IdMaps) else record for record in changed]

    monkeypatch.setattr(backend, "compile_plan", lambda *args, **more: edit(compile_plan(*args, **more)))
    with pytest.raises(SandboxError):
        create_sandbox("seccomp", workspace=Workspace(str(workspace))).close()


@pytest.mark.parametrize("waived", ["ipc_namespace", "uts_namespace", "cgroup_namespace", "keyring", "landlock"])
def test_a_waiver_leaves_out_one_layer(waived: str, workspace: Path) -> None:
    """By name, on record, and everything else is in force."""
    with create_sandbox("seccomp", workspace=Workspace(str(workspace)), waive={waived}) as sandbox:
        assert sandbox.info.waived == {waived}
        assert sandbox.info.layers[waived] == "absent (waived)"
        assert absent(sandbox) == {waived}
        assert sandbox.exec("true").ok


def test_a_command_outside_its_group_does_not_run(build: Build, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A join that is said to have worked and has not: the command looks for itself in the group's list, and ends."""
    if "memory" not in usable_controllers():
        pytest.skip("this process can make no control group for memory")
    text = (HELPER / "execute.c").read_text()
    joining = 'long r = write_all (c->joins[i], "0", 1);'
    assert text.count(joining) == 1
    for changed, runs in (({}, True), ({"execute.c": text.replace(joining, "long r = 0;")}, False)):
        program = build(changed)
        with monkeypatch.context() as patch:
            patch.setattr(start, "_native", partial(_same, program))
            quotas = Quotas(memory="64MiB")
            with create_sandbox("seccomp", workspace=Workspace(str(workspace)), quotas=quotas) as sandbox:
                assert sandbox.info.layers["cgroup"].startswith("enforced")
                assert attempt(sandbox) == runs
        assert (workspace / "marker").exists() == runs
        (workspace / "marker").unlink(missing_ok=True)


def _same(program: HelperProgram) -> HelperProgram:
    return program


def attempt(sandbox: ISandbox) -> bool:
    try:
        return sandbox.exec("touch marker").ok
    except (SandboxError, OSError):
        return False
