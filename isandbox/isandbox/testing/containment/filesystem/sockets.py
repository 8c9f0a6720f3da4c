"""Sockets of the host: of container engines, agents and sessions, in the file system and without a path."""

from __future__ import annotations

import os
import secrets

from isandbox.policy import Mount
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.filesystem.proc import restore
from isandbox.testing.containment.judge import REFUSED, judge
from isandbox.testing.containment.peers import Listener
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

# Connected and closed again: only to sockets of the probe's own a datagram is sent.
_CONNECT = """
import tempfile
KINDS = {"stream": socket.SOCK_STREAM, "datagram": socket.SOCK_DGRAM, "packets": socket.SOCK_SEQPACKET}

def reach(address, kind, send=True):
    try:
        with socket.socket(socket.AF_UNIX, KINDS[kind]) as one:
            one.settimeout(5)
            one.connect(address)
            if kind == "datagram" and send:
                one.send(b"x")
    except OSError as error:
        return word(error.errno) if error.errno else type(error).__name__
    return "ok"

for kind in KINDS:
    for name in (os.path.join(tempfile.mkdtemp(), "own"), "\\0own-%d-%s" % (os.getpid(), kind)):
        own = socket.socket(socket.AF_UNIX, KINDS[kind])
        own.bind(name)
        if kind != "datagram":
            own.listen(1)
        controls[kind + (" without a path" if name[0] == "\\0" else "")] = reach(name, kind)
        own.close()
        if name[0] != "\\0":
            os.unlink(name)
"""
_PATHS = (
    _CONNECT
    + """
for path in paths:
    for kind in KINDS:
        out["%s %s" % (path, kind)] = reach(path, kind, token in path)
        out["/proc/1/root%s %s" % (path, kind)] = reach("/proc/1/root" + path, kind, token in path)
for path, status in below("/"):
    if stat.S_ISSOCK(status.st_mode):
        out["found " + path] = reach(path, "stream")
for name in variables:
    out[name] = "set" if os.environ.get(name) in paths else "ENOENT"
"""
)
_ENGINES = (
    "/var/run/docker.sock", "/run/docker.sock", "/run/docker/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock",
    "/run/crio/crio.sock", "/run/buildkit/buildkitd.sock", "/var/run/cri-dockerd.sock", "/var/lib/lxd/unix.socket",
)  # fmt: skip
_SESSIONS = (
    "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/notify", "/run/systemd/journal/stdout", "/run/systemd/journal/socket",
    "/run/systemd/io.systemd.sysext", "/run/udev/control", "/tmp/.X11-unix/X0", "/run/snapd.socket", "/run/cups/cups.sock", "/dev/log",
    "/var/run/nscd/socket", "/run/rpcbind.sock", "/run/acpid.socket",
)  # fmt: skip
_BY = {
    "ENOENT": "not in the mount view",
    "ENOTDIR": "not in the mount view",
    "EACCES": "no permission",
    "EPERM": "no permission",
}


@probe("A25", "The sockets of container engines are out of reach", claim="sockets")
async def engines(arena: Arena) -> Verdict:
    """None of the usual paths answers, none is found by a search, and a socket of that name elsewhere on the host hears
    nothing.
    """
    listeners = [arena.listen(name) for name in ("docker.sock", "containerd.sock", "podman.sock")]
    out, controls = await arena.attack(
        _PATHS, paths=[*map(_path, listeners), *_ENGINES], variables=[], token=arena.planted.name
    )
    return _heard(listeners, judge(out, controls, by=_BY))


@probe("A26", "The sockets of agents and sessions are out of reach", claim="sockets")
async def sessions(arena: Arena) -> Verdict:
    """Key agents, message buses, displays and the service manager: no connection and no datagram arrives, and no variable
    says where they are.
    """
    names = {
        "SSH_AUTH_SOCK": "agent.1",
        "DBUS_SESSION_BUS_ADDRESS": "bus",
        "WAYLAND_DISPLAY": "wayland-0",
        "PULSE_SERVER": "native",
    }
    listeners = [arena.listen(name) for name in (*names.values(), "S.gpg-agent")]
    listeners += [arena.listen("notify", "datagram"), arena.listen("packets", "packets")]
    variables = {**names, "NOTIFY_SOCKET": "notify"}
    arena.stack.callback(restore, {name: os.environ.get(name) for name in variables})
    os.environ.update({name: str(arena.planted / file) for name, file in variables.items()})
    user = [
        f"/run/user/{os.getuid()}/{name}"
        for name in ("bus", "systemd/private", "gnupg/S.gpg-agent", "wayland-0", "pulse/native")
    ]
    paths = [*map(_path, listeners), *_SESSIONS, *user]
    out, controls = await arena.attack(_PATHS, paths=paths, variables=list(variables), token=arena.planted.name)
    return _heard(listeners, judge(out, controls, by=_BY))


_MOUNTED = (
    _CONNECT
    + """
controls["reading what is mounted"] = opened("/mnt/place/file")
for kind in ("stream", "datagram"):
    out[kind] = reach("/mnt/place/" + kind, kind)
    out[kind + " by /proc"] = reach("/proc/self/root/mnt/place/" + kind, kind)
"""
)


@probe("A26-mounted", "A socket of the host in a mounted directory does not answer", claim="sockets")
async def mounted(arena: Arena) -> Verdict:
    """Also where the mount is read-only, which does not concern sockets. A backend that cannot hold this may say so among its
    weaknesses.
    """
    place = arena.directory()
    place.chmod(0o755)
    (place / "file").write_text("x")
    listeners = [arena.listen(str(place / "stream")), arena.listen(str(place / "datagram"), "datagram")]
    box = await arena.create(mounts=[Mount(str(place), "/mnt/place")])
    out, controls = await arena.attack(_MOUNTED, box=box)
    verdict = _heard(
        listeners, judge(out, controls, refused=REFUSED | {"ECONNREFUSED"}, by={**_BY, "ECONNREFUSED": "covered"})
    )
    declared = [text for text in arena.target.capabilities.weaknesses if "socket" in text.lower()]
    if verdict.outcome == "LEAK" and declared:
        return Verdict("NOT-PROVIDED", detail=f"declared: {declared[0]}")
    return verdict


_ABSTRACT = (
    _CONNECT
    + """
for name, kind in names.items():
    out[kind] = reach("\\0" + name, kind)
out["listed"] = "listed" if any(name in content("/proc/net/unix", 1 << 20) for name in names) else "ECONNREFUSED"
"""
)


@probe("A27", "Sockets without a path are out of reach", claim="ipc")
async def abstract(arena: Arena) -> Verdict:
    """An abstract socket that the host listens on hears nothing, be it of streams, packets or datagrams, and is not listed."""
    token = secrets.token_hex(8)
    listeners = [arena.listen(f"\0{token}-{kind}", kind) for kind in ("stream", "datagram", "packets")]
    names = {f"{token}-{kind}": kind for kind in ("stream", "datagram", "packets")}
    out, controls = await arena.attack(_ABSTRACT, names=names)
    by = {"ECONNREFUSED": "net namespace", "EPERM": "Landlock"}
    return _heard(listeners, judge(out, controls, refused={"ECONNREFUSED", "EPERM", "EACCES"}, by=by))


def _path(listener: Listener) -> str:
    return str(listener.address)


def _heard(listeners: list[Listener], verdict: Verdict) -> Verdict:
    """What arrived on the host outweighs what was said inside."""
    arrived = sum(listener.arrivals() for listener in listeners)
    return verdict if not arrived else Verdict("LEAK", detail=f"{arrived} arrived on the host; {verdict.detail}")
