"""What a sandbox changes while the host works in it, and what it leaves for the next one."""

from __future__ import annotations

from pathlib import Path

from isandbox.errors import ConfigurationError
from isandbox.policy import Mount, Workspace
from isandbox.sandbox import ISandbox
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.inside import program
from isandbox.testing.containment.interface.verbs import said, typed, until_there
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

# Swaps a directory with a link that leads out, for as long as "going" is there; and the same in any directory that a download
# makes on its way.
_SWAP = """
os.makedirs("d"); os.symlink(outside, "l")
with open("d/secret", "w") as file:
    file.write("own")
def swap():
    libc.renameat2(-100, b"d", -100, b"l", 2)
def meddle():
    for top in os.listdir("."):
        if top.startswith(("got", ".")) and os.path.isdir(top):
            for where, names, _ in os.walk(top):
                for name in names:
                    path = os.path.join(where, name)
                    attempt(os.rename, path, path + "~")
                    attempt(os.symlink, outside, path)
end, swaps = time.monotonic() + seconds, 0
open("going", "w").close()
while os.path.exists("going") and time.monotonic() < end:
    swap(); swaps += 1
    if swaps % 16 == 0:
        attempt(meddle)
out["swaps"] = swaps
"""
_LEAVE = """
os.symlink(outside, "link")
os.symlink(outside + "/secret", "file-link")
with open(".git", "w") as file:
    file.write("gitdir: %s\\n" % outside)
with open("commondir", "w") as file:
    file.write(outside)
os.mkdir("mount-here"); os.rmdir("mount-here"); os.symlink(outside, "mount-here")
controls["links"] = "ok" if os.readlink("link") == outside else "none"
"""


@probe("F05", "No call follows what is swapped under it", claim="files", timeout=120.0)
async def races(arena: Arena) -> Verdict:
    """While a directory of the workspace and a link out of it change places all the time, reading, writing, listing, making,
    uploading and downloading never touch what the link points to; nor does what the host itself reads from there or lands there.
    """
    path, _ = arena.plant("secret", mode=0o666)
    arena.planted.chmod(0o777)
    arena.seal()
    host = arena.directory()
    host.chmod(0o755)
    sandbox = await arena.sandbox(workspace=Workspace(str(host)))
    process = await sandbox.start(
        ["python3", "-I", "-c", program(_SWAP, {"outside": str(path.parent), "seconds": arena.rounds(30, 600)})]
    )
    await until_there(sandbox, "going")
    checks, answers = Checks(), []
    for number in range(arena.rounds(25, 2000)):
        answers += await _calls(arena, sandbox, host, number)
    await sandbox.remove("going")
    result = await process.wait()
    arena.saw(result)
    checks.control("it was swapped", b'"swaps": ' in result.stdout_bytes and result.exit_code == 0, result.stderr[-300:])
    checks.control("many calls found the directory", answers.count("ok") > len(answers) // 10, answers.count("ok"))
    checks.hold("every answer is typed", all(map(typed, answers)), sorted({a for a in answers if not typed(a)}))
    changed = arena.changed()
    checks.hold("nothing outside changed", not changed, changed)
    return checks.verdict("CONTAINED", "resolved inside, and beneath a descriptor", f"{len(answers)} calls")


async def _calls(arena: Arena, sandbox: ISandbox, host: Path, number: int) -> list[str]:
    source = arena.directory()
    (source / "secret").write_text("sent")
    calls = [
        sandbox.write("d/secret", b"own"),
        sandbox.read("d/secret"),
        sandbox.stat("d/secret"),
        sandbox.list_dir("d"),
        sandbox.make_dir(f"d/made/{number}", parents=True),
        sandbox.rename("d/secret", "d/renamed"),
        sandbox.write(f"d/{number}", b"own", mode=0o600),
        sandbox.remove(f"d/{number}"),
        sandbox.files.upload(source, "d"),
        sandbox.files.download("d", arena.directory() / "got", unsafe="skip"),
        # The host's side of the same directory, which the sandbox can write.
        sandbox.files.download("d", host / f"got{number}", unsafe="skip"),
        sandbox.files.upload(host, f"/tmp/copy{number}", unsafe="skip"),
        sandbox.exec(
            ["sh", "-c", f"cat /tmp/copy{number}/*/* 2>/dev/null; rm -rf /tmp/copy{number} made got* .i* d/made d/renamed"],
            timeout=20.0,
        ),
    ]
    return [await said(arena, call) for call in calls]


@probe("F15", "Links that a sandbox leaves widen nobody's view", claim="files")
async def confused_deputy(arena: Arena) -> Verdict:
    """A workspace with links out of it and a ``.git`` that names another place is given to the next sandbox, also with a mount
    where a link stands: neither sees, nor changes, what they point to.
    """
    path, _ = arena.plant("secret", mode=0o666)
    arena.planted.chmod(0o777)
    arena.seal()
    host, other = arena.directory(), arena.directory()
    host.chmod(0o755)
    (other / "granted").write_text("granted")
    first = await arena.create(workspace=Workspace(str(host)))
    _, controls = await arena.attack(_LEAVE, box=first, outside=str(path.parent))
    checks = Checks()
    checks.control("links were left", set(controls.values()) == {"ok"}, controls)
    where = first.info.workspace if isinstance(first, ISandbox) else "/workspace"
    look = (
        "cat file-link link/secret mount-here/secret .git/secret 2>/dev/null; ls -a link/ mount-here/; echo x > link/new; echo"
    )
    plans: list[list[Mount]] = [[], [Mount(str(other), f"{where}/mount-here", mode="rw")]]
    for mounts in plans:
        try:
            second = await arena.create(workspace=Workspace(str(host)), mounts=mounts)
        except ConfigurationError:
            checks.control("a mount on a link is refused", bool(mounts))
            continue
        result = await second.exec(["sh", "-c", look], timeout=20.0)
        arena.saw(result)
        checks.control("it looked", result.exit_code == 0, result)
    for link in ("link", "file-link", "mount-here"):
        answer = await said(arena, _opens(arena, Mount(str(host / link), "/mnt/link")))
        checks.hold(f"a mount of {link} itself is refused", answer == "configuration", answer)
    changed = arena.changed()
    checks.hold("nothing outside changed", not changed, changed)
    return checks.verdict("CONTAINED", "mount view, no link followed")


async def _opens(arena: Arena, mount: Mount) -> str:
    async with arena.target.create(mounts=[mount]) as sandbox:
        result = await sandbox.exec(["sh", "-c", "cat /mnt/link/* /mnt/link"], timeout=20.0)
        arena.saw(result)
        return str(result.exit_code)
