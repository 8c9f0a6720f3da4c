"""Attacks on what the host has and a sandbox must not see: secrets, other workspaces, descriptors, the first process."""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from isandbox import Mount, Workspace
from isandbox_backends._shared.plan import Bind, Directory, File, Record

pytestmark = pytest.mark.native

SECRETS = (".ssh/id_ed25519", ".aws/credentials", ".netrc", ".docker/config.json", ".bash_history", ".config/gcloud/key.json")


def before_landlock(records: list[Record], *extra: Record) -> list[Record]:
    at = next(i for i, record in enumerate(records) if type(record).__name__ == "Hostname")
    return [*records[:at], *extra, *records[at:]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory full of canaries, readable by everybody: only the view can hide it."""
    place = tmp_path / "home"
    for name in SECRETS:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(f"canary-{secrets.token_hex(16)}")
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return place


READ_ALL = "out.update({path: content(path) for path in PATHS})"


def test_secrets_of_a_home_directory(make: Any, probes: Any, home: Path) -> None:
    """Key files of the user cannot be read by their paths; mounted on purpose they can."""
    paths = [str(home / name) for name in SECRETS]
    assert set(probes.run(make(), READ_ALL, PATHS=paths).values()) == {"ENOENT"}
    box = make(mounts=[Mount(str(home), "/mnt/home")])
    assert probes.run(box, READ_ALL, PATHS=["/mnt/home/.netrc"])["/mnt/home/.netrc"].startswith("canary-")
    mutant = make(edit=lambda plan: before_landlock(plan, Directory("leak"), Bind(str(home), "leak")))
    assert probes.run(mutant, READ_ALL, PATHS=["/leak/.netrc"])["/leak/.netrc"].startswith("canary-")


def test_secrets_of_the_host(make: Any, probes: Any) -> None:
    """Password hashes, keys of services and the superuser's home are not there; the sandbox's own users file is."""
    paths = ["/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh", "/root", "/home/user/.ssh", "/var/lib", "/var/run/docker.sock",
             "/run/docker.sock", "/run/dbus/system_bus_socket", "/run/systemd/private", "/boot", "/opt", "/srv", "/mnt", "/sys",
             "/etc/machine-id", "/etc/hostname.orig", "/var/log"]  # fmt: skip
    probe = 'for path in PATHS:\n    out[path] = opened(path)\nout["users"] = content("/etc/passwd")'
    found = probes.run(make(), probe, PATHS=paths)
    assert "/home/user" in found.pop("users")
    assert set(found.values()) == {"ENOENT"}
    mutant = make(edit=lambda plan: before_landlock(plan, File("etc/shadow"), Bind("/etc/shadow", "etc/shadow")))
    assert probes.run(mutant, probe, PATHS=["/etc/shadow"])["/etc/shadow"] in ("ok", "EACCES")


def test_workspaces_of_other_sandboxes(make: Any, probes: Any, sandbox_tmp: Path) -> None:
    """A sandbox sees nothing of another one: not its workspace by its path, not its scratch space, not its processes."""
    path = tempfile.mkdtemp(dir=sandbox_tmp)
    victim, attacker = make(workspace=path), make()
    victim.write("canary", b"canary")
    victim.exec("echo canary > /tmp/canary; echo canary > /dev/shm/canary; echo canary > ~/canary")
    process = victim.start("exec sleep 30")
    probe = "out.update({p: opened(p) for p in PATHS})\nout['pids'] = sum(n.isdigit() for n in os.listdir('/proc'))"
    paths = [path, f"{path}/canary", "/tmp/canary", "/dev/shm/canary", "/home/user/canary", os.path.dirname(path) + "/."]
    found = probes.run(attacker, probe, PATHS=paths)
    assert found.pop("pids") == 3
    allowed = {"/tmp/."} if os.path.dirname(path) == "/tmp" else set()
    assert {value for name, value in found.items() if name not in allowed} == {"ENOENT"}
    assert probes.run(victim, probe, PATHS=paths[2:5])["/tmp/canary"] == "ok"
    process.kill()


TRAVERSAL = """
os.chdir("/workspace")
ways = ["../" * 20 + TARGET[1:], "/proc/self/cwd/.." + "/.." * 20 + TARGET, "/proc/self/root" + TARGET, "/proc/1/root" + TARGET,
        "/proc/1/cwd" + TARGET, "/dev/fd/../../../.." + TARGET, "/proc/thread-self/root/.." + TARGET]
os.symlink(TARGET, "direct"); os.symlink("../" * 20 + TARGET[1:], "up"); os.symlink("up", "chain")
os.symlink("/proc/self/root" + TARGET, "magic")
ways += ["direct", "up", "chain", "magic"]
for way in ways:
    out[way] = content(way)
    out[way + " (write)"] = opened(way, os.O_WRONLY)
out["hard link"] = attempt(os.link, TARGET, "hard")
os.symlink("own", "inside")
open("own", "w").write("own")
out["control"] = content("inside") + content("/proc/self/cwd/../workspace/own")
"""


def test_no_path_leads_out(make: Any, probes: Any, home: Path) -> None:
    """Neither `..`, nor links, nor the magic links of /proc lead out of the view, for reading or writing."""
    target = home / ".netrc"
    before = target.read_bytes()
    found = probes.run(make(), TRAVERSAL, TARGET=str(target))
    assert found.pop("control") == "ownown"
    assert set(found.values()) <= {"ENOENT", "EACCES"}
    assert before.decode() not in str(found)
    assert target.read_bytes() == before


@pytest.mark.parametrize("cwd", ["/proc/1/cwd", "/proc/1/root", "/proc/1/fd/4", "/proc/self/fd/3", "/proc/self/fd/7", "link"])
def test_a_working_directory_through_a_magic_link(box: Any, cwd: str) -> None:
    """A command cannot be started in a directory that is reached through a descriptor or the first process."""
    box.exec("ln -s /proc/1/root link; mkdir real; ln -s real fine")
    with pytest.raises(OSError, match=r"Permission|No such|Not a directory"):
        box.exec("pwd", cwd=cwd)
    assert box.exec("pwd", cwd="fine").stdout in ("/workspace/real\n", "/workspace/fine\n")


DESCRIPTORS = """
for name in os.listdir("/proc/self/fd"):
    try:
        out[name] = os.readlink("/proc/self/fd/" + name)
    except OSError:
        pass
"""


@pytest.fixture
def open_everything(tmp_path: Path) -> Iterator[None]:
    """A host with inheritable descriptors of every kind, some of them with high numbers."""
    canary = tmp_path / "canary"
    canary.write_text("canary")
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    fds = [
        os.open(canary, os.O_RDONLY),
        os.open(tmp_path, os.O_RDONLY),
        os.memfd_create("secret", 0),
        os.pidfd_open(os.getpid()),
    ]
    fds += [os.dup(fds[0]) for _ in range(200)]
    for fd in (*fds, listener.fileno()):
        os.set_inheritable(fd, True)
    yield
    listener.close()
    for fd in fds:
        os.close(fd)


@pytest.mark.usefixtures("open_everything")
def test_descriptors_of_the_host(make: Any, probes: Any) -> None:
    """A command has its three standard streams, which are pipes of ours, and no other descriptor of the host."""
    found = probes.run(make(), DESCRIPTORS)
    listing = [name for name, target in found.items() if "/fd" in target and "/proc/" in target]
    assert set(found) - set(listing) == {"0", "1", "2"}
    assert found["0"] == "/dev/null"
    assert found["1"].startswith("pipe:")
    assert found["2"].startswith("pipe:")


FIRST_PROCESS = """
for pid in PIDS or ("1", str(os.getppid())):
    for name in ("environ", "mem", "maps", "smaps", "auxv", "stack", "syscall", "fd", "fdinfo", "map_files", "ns/user", "ns/net",
                 "root", "cwd", "exe", "pagemap", "io", "personality", "timers"):
        out[name + " " + ("of " + pid if PIDS else "")] = opened("/proc/%s/%s" % (pid, name), os.O_RDONLY)
out["control"] = [opened("/proc/self/" + name) for name in ("environ", "maps", "mem", "fd")]
out["seen"] = sorted(name for name in os.listdir("/proc") if name.isdigit())[:3]
"""


def test_the_first_process_and_the_keeper_are_closed(make: Any, probes: Any) -> None:
    """Memory, environment, descriptors, namespaces and links of the helper's processes cannot be opened; one's own can."""
    found = probes.run(make(), FIRST_PROCESS, PIDS=[])
    assert set(found.pop("control")) == {"ok"}
    assert found.pop("seen")[0] == "1"
    assert set(found.values()) <= {"EACCES", "EPERM", "ENOENT"}


def test_another_command_is_open_and_the_helper_is_not(make: Any, probes: Any) -> None:
    """The check above sees something: the same files of another command of the sandbox can be opened."""
    box = make()
    victim = box.start(["sh", "-c", "echo $$; exec sleep 30"])
    _, pid = next(iter(victim))
    found = probes.run(box, FIRST_PROCESS, PIDS=[pid.decode().strip()])
    assert "ok" in {value for name, value in found.items() if isinstance(value, str) and name.startswith(("maps", "environ"))}
    victim.kill()


def test_a_mounted_directory_is_all_that_is_mounted(make: Any, probes: Any, home: Path) -> None:
    """With a directory as the workspace its parent and its siblings stay out of reach."""
    (home.parent / "ws").mkdir()
    (home.parent / "ws").chmod(0o755)
    box = make(workspace=Workspace(str(home.parent / "ws")))
    probe = "out['up'] = sorted(os.listdir('/workspace/..'))\nout['sibling'] = content('/workspace/../home/.netrc')"
    found = probes.run(box, probe)
    assert found["sibling"] == "ENOENT"
    assert "usr" in found["up"]
