"""Paths that lead out, in every spelling, through every verb; and roots that are odd."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from isandbox.errors import SandboxError, UnsupportedError
from isandbox.policy import Workspace
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.interface.verbs import READING, WRITING, Place, said, typed
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

_DEEP = 24


def ways_out(path: str) -> Mapping[str, str]:
    """An absolute path of the host as an attacker would write it."""
    rest = path.lstrip("/")
    return {
        "absolute": path,
        "up": "../" * _DEEP + rest,
        "down and up": "own-directory/" + "../" * _DEEP + rest,
        "doubled slashes": "//" + path.replace("/", "//"),
        "dots": "/./" + path.replace("/", "/./"),
        "by the root of a process": "/proc/self/root" + path,
        "by the directory of a process": "/proc/self/cwd/" + "../" * _DEEP + rest,
        "home": "~/" + "../" * _DEEP + rest,
        "encoded": "%2e%2e/" * _DEEP + rest,
        "encoded slashes": "..%2f" * _DEEP + rest.replace("/", "%2f"),
        "backslashes": "..\\" * _DEEP + rest.replace("/", "\\"),
        "a drive": "C:" + path,
        "a URL": "file://" + path,
        "a slash behind": path + "/",
        "dots behind": path + "/.",
    }


@probe("F01", "No verb leads out of the sandbox, however the path is written", claim="files")
async def traversal(arena: Arena) -> Verdict:
    """Every verb with every spelling of a planted file and its directory: nothing comes back, nothing changes, and what is
    refused is refused with a typed error.
    """
    sandbox, checks = await arena.sandbox(), Checks()
    path, _ = arena.plant("secret", mode=0o666)
    (arena.planted / arena.canaries.new()).write_text("found by its name")
    arena.planted.chmod(0o777)  # so that nothing but the sandbox keeps anybody from it
    arena.seal()
    await sandbox.make_dir("own-directory", parents=True)
    await sandbox.write("own-directory/own", b"own")
    checks.control("a path with dots inside", await sandbox.read("own-directory/../own-directory/./own") == b"own")
    answers = []
    for verbs in (READING, WRITING):
        for spelling, written in (*ways_out(str(path)).items(), *ways_out(str(arena.planted)).items()):
            for name, verb in verbs.items():
                if name == "rename to":
                    await sandbox.write("own", b"own")
                answer = await said(arena, verb(Place(arena, sandbox, written)))
                checks.hold(f"{name}, {spelling}", typed(answer), answer)
                answers.append(answer)
    changed = arena.changed()
    checks.hold("nothing planted changed", not changed, changed)
    return checks.verdict("CONTAINED", "mount view", f"{len(answers)} calls")


@probe("F01-staging", "A source that ends in dots does not choose where a download lands", claim="interface")
async def staging(arena: Arena) -> Verdict:
    """Whatever dots and slashes the path inside has, the tree lands at the target, and beside it nothing."""
    sandbox, checks = await arena.sandbox(), Checks()
    await sandbox.write("top/d/file", b"content")
    landing = arena.directory()
    sources = ("top/d/..", "top/.", "top//", "top/d/../", "top/d/./..", "./top")
    for number, source in enumerate(sources):
        await sandbox.files.download(source, landing / str(number))
        got = landing / str(number) / "d" / "file"
        checks.control(source, got.read_bytes() == b"content")
    checks.hold(
        "nothing beside them", sorted(os.listdir(landing)) == [str(n) for n in range(len(sources))], os.listdir(landing)
    )
    beside = arena.planted / "beside"
    for source in ("..", "../..", "/..", "/"):
        answer = await said(arena, sandbox.files.download(source, landing / "whole", max_files=3, unsafe="skip"))
        checks.hold(f"{source}: typed", typed(answer), answer)
        checks.hold(f"{source}: at its target", set(os.listdir(landing)) <= {*map(str, range(len(sources))), "whole"})
        checks.hold("nothing above it", not beside.exists() and not (landing.parent / "file").exists())
        await asyncio.to_thread(_remove_tree, landing / "whole")
    return checks.verdict("CONTAINED", "random name beside the target")


def _remove_tree(path: Path) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)


@probe("F03", "Names that look like options, and paths that are too long", claim="interface")
async def odd_names(arena: Arena) -> Verdict:
    """Each is an operand for every verb and comes back as it was; what no file system takes is a typed error; no such user."""
    sandbox, checks = await arena.sandbox(), Checks()
    names = ["-rf", "--", "--checkpoint-action=exec=sh", "-e", "@list", ":(glob)x", "C:\\x", "~", "~root", "$HOME", "*", "[a]"]
    for name in names:
        await sandbox.write(name, name.encode())
        checks.control(name, await sandbox.read(name) == name.encode())
    listed = {entry.name for entry in await sandbox.list_dir(".")}
    checks.hold("all are listed", set(names) <= listed, set(names) - listed)
    for name in names:
        landing = arena.directory() / "got"
        await sandbox.files.download(name, landing)
        checks.hold(f"{name} is downloaded", landing.read_bytes() == name.encode())
        await sandbox.rename(name, f"-moved{name}".replace("/", ""))
        await sandbox.remove(f"-moved{name}")
    listed = {entry.name for entry in await sandbox.list_dir(".")}
    checks.hold("all are removed, and nothing else", not listed & set(names), listed)
    for what, path in (("a name of 256 bytes", "x" * 256), ("a path of 5,000 bytes", "d/" * 2500 + "x")):
        for verb, run in (*READING.items(), *WRITING.items()):
            if verb == "rename to":
                await sandbox.write("own", b"own")
            answer = await said(arena, run(Place(arena, sandbox, path)))
            checks.hold(f"{what}: {verb}", typed(answer) and (answer != "ok" or verb == "exists"), answer)
    deep = "/".join(["d"] * 300) + "/file"
    await sandbox.write(deep, b"deep")
    checks.hold("300 directories deep", await sandbox.read(deep) == b"deep")
    await sandbox.remove("d", recursive=True)
    for user in ("-u0", "--privileged", "0:0", "root;id"):
        answer = await said(arena, sandbox.exec(["true"], user=user, timeout=20.0))
        checks.hold(f"the user {user}", typed(answer) and answer != "ok", answer)
    return checks.verdict("CONTAINED", "operands, no options")


@probe("F04", "Odd roots work or are refused when the sandbox is made", claim="interface")
async def odd_roots(arena: Arena) -> Verdict:
    """A workspace that is not there, is a file, the root, a link or too long: a typed error, or a sandbox that works in it. A
    working directory that goes away ends nobody else's command.
    """
    top, checks = arena.directory(), Checks()
    (top / "plain").mkdir()
    (top / "link").symlink_to("plain")
    (top / "file").write_text("x")
    deep = top / ("x" * 200)
    while len(str(deep)) < 3700:
        deep /= "x" * 200
    deep.mkdir(parents=True)
    roots = ["plain", "link", "file", "missing", str(deep), "/", "", "x" * 5000, "a\0b", "link/../plain", "."]
    for root in roots:
        path = root if root[:1] in {"", "/"} else f"{top}/{root}"
        answer = await said(arena, _works(arena, path))
        checks.hold(f"{root[:20]!r}", typed(answer), answer)
        if root == "plain":
            if answer == UnsupportedError.code:
                return Verdict("NOT-PROVIDED", detail="a directory of this host's temporary files as a workspace is refused")
            checks.control("a plain one works", answer == "ok", answer)
        if root in {"", "/", "file", "missing", "a\0b"}:
            checks.hold(f"{root!r} is refused", answer != "ok", answer)
    sandbox = await arena.sandbox()
    await sandbox.make_dir("gone", parents=True)
    gone = await sandbox.exec(["sh", "-c", "rmdir ../gone; echo still here"], cwd="gone", timeout=20.0)
    checks.hold("a command whose directory is gone", gone.stdout == "still here\n", gone)
    answer = await said(arena, sandbox.exec(["true"], cwd="gone", timeout=20.0))
    checks.hold("the next one there", answer == "ENOENT", answer)
    checks.hold("and elsewhere", (await sandbox.exec(["true"], timeout=20.0)).ok)
    checks.hold("the root's mode is as it was", stat.S_IMODE((top / "plain").stat().st_mode) == 0o755)
    return checks.verdict("BLOCKED", "checked when it is made")


async def _works(arena: Arena, path: str) -> str:
    async with arena.target.create(workspace=Workspace(path)) as sandbox:
        result = await sandbox.exec(["sh", "-c", "echo x > made-inside && cat made-inside"], timeout=20.0)
        arena.saw(result)
        if result.stdout != "x\n":
            raise SandboxError(f"it does not work: {result.stderr[-200:]}")
        return "works"
