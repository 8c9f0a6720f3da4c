"""Attacks on the network: from inside nothing answers, not the host's loopback, not its UNIX sockets, no name server."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from isandbox import Mount
from isandbox_backends._shared.plan import ModeRecord, Record

pytestmark = pytest.mark.native

NEW_NET = 0x40000000

PROBE = """
socket.setdefaulttimeout(2)
def tcp(host, port):
    with socket.socket() as s:
        s.connect((host, port))
def unix(address, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_UNIX, kind) as s:
        s.connect(address)
def datagram(host, port):
    with socket.socket(type=socket.SOCK_DGRAM) as s:
        s.sendto(b"canary", (host, port))
abstract = "\\0" + ABSTRACT
out["tcp"] = attempt(tcp, "127.0.0.1", TCP)
out["tcp any"] = attempt(tcp, "0.0.0.0", TCP)
out["abstract"] = attempt(unix, abstract)
out["hidden"] = attempt(unix, PATH)
out["docker"] = attempt(unix, "/run/docker.sock")
out["udp"] = attempt(datagram, "127.0.0.1", UDP)
out["metadata"] = attempt(tcp, "169.254.169.254", 80)
out["metadata udp"] = attempt(datagram, "169.254.169.254", 53)
out["broadcast"] = attempt(datagram, "255.255.255.255", 9)
out["v6"] = attempt(lambda: socket.create_connection(("fe80::1", 80), 2))
start = time.monotonic()
try:
    socket.getaddrinfo("example.com", 80)
    out["name"] = "ok"
except OSError:
    out["name"] = "refused"
out["seconds"] = time.monotonic() - start
out["localhost"] = socket.getaddrinfo("localhost", 80)[0][4][0]
out["interfaces"] = [name for _, name in socket.if_nameindex()]
"""

OWN_LOOPBACK = """
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen()
client = socket.create_connection(server.getsockname(), 2)
client.sendall(b"x")
out["tcp"] = server.accept()[0].recv(1).decode()
a, b = socket.socketpair()
a.send(b"y")
out["pair"] = b.recv(1).decode()
"""


def serve(kind: str, listener: socket.socket, calls: list[str]) -> None:
    while True:
        try:
            if listener.type == socket.SOCK_DGRAM:
                if listener.recvfrom(64)[0] == b"end":
                    return
            else:
                listener.accept()[0].close()
        except OSError:
            return
        calls.append(kind)


@pytest.fixture
def listeners(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Services of the host: TCP and UDP on its loopback, an abstract and a named UNIX socket; and who has called."""
    name = f"isandbox-test-{secrets.token_hex(8)}"
    path = tmp_path / "s"
    tmp_path.chmod(0o755)
    calls: list[str] = []
    tcp, udp = socket.create_server(("127.0.0.1", 0)), socket.socket(type=socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    abstract, named = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    abstract.bind("\0" + name)
    named.bind(str(path))
    path.chmod(0o777)
    every = {"tcp": tcp, "abstract": abstract, "named": named, "udp": udp}
    for listener in (abstract, named):
        listener.listen()

    threads = [threading.Thread(target=serve, args=(*item, calls), daemon=True) for item in every.items()]
    for thread in threads:
        thread.start()
    yield {
        "values": {"TCP": tcp.getsockname()[1], "UDP": udp.getsockname()[1], "ABSTRACT": name, "PATH": str(path)},
        "calls": calls,
        "directory": tmp_path,
    }
    udp.sendto(b"end", udp.getsockname())
    for listener in (tcp, abstract, named):
        listener.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join(5)
    for listener in every.values():
        listener.close()


def test_nothing_outside_answers(make: Any, probes: Any, listeners: dict[str, Any]) -> None:
    """No service of the host and no address of a network is reached; a name look-up fails at once; loopback is the
    sandbox's own.
    """
    box = make()
    found = probes.run(box, PROBE, **listeners["values"])
    assert (found.pop("localhost"), found.pop("interfaces")) == ("127.0.0.1", ["lo"])
    assert found.pop("seconds") < 2
    refused = {"ECONNREFUSED", "ENETUNREACH", "ENOENT", "EACCES", "EPERM", "refused", "EADDRNOTAVAIL", "EINVAL"}
    assert found.pop("udp") in {"ok", "ECONNREFUSED"}  # into the sandbox's own loopback, where nobody listens
    assert set(found.values()) <= refused
    assert probes.run(box, OWN_LOOPBACK) == {"tcp": "x", "pair": "y"}
    assert listeners["calls"] == []


def without_net(plan: list[Record]) -> list[Record]:
    def changed(record: Record) -> Record:
        if not isinstance(record, ModeRecord):
            return record
        flags = record.flags & ~type(record.flags).LOOPBACK
        return ModeRecord(
            flags,
            record.clone_flags & ~NEW_NET,
            record.command_uid,
            record.command_gid,
            record.pids,
            record.memory,
            record.cpu_ns,
        )

    return [changed(record) for record in plan]


def test_without_the_network_namespace_the_host_answers(make: Any, probes: Any, listeners: dict[str, Any]) -> None:
    """The attacks above are some: without that namespace the host's loopback answers, and the scope of Landlock alone
    still keeps abstract sockets away.
    """
    tools = PROBE.split("out[", maxsplit=1)[0]
    attack = tools + "out['tcp'] = attempt(tcp, '127.0.0.1', TCP)\nout['abstract'] = attempt(unix, abstract)"
    found = probes.run(make(edit=without_net), attack, **listeners["values"])
    assert found["tcp"] == "ok"
    assert found["abstract"] in {"EPERM", "ok"}  # ok where the kernel's Landlock has no scopes (before Linux 6.12)
    found = probes.run(make(edit=without_net, waive={"landlock"}), attack, **listeners["values"])
    assert found["abstract"] == "ok"


def test_a_socket_in_a_mounted_directory_is_a_grant(make: Any, probes: Any, listeners: dict[str, Any]) -> None:
    """A UNIX socket that the caller mounts answers: what is hidden is the view's doing."""
    box = make(mounts=[Mount(str(listeners["directory"]), "/mnt/d")])
    body = PROBE.split("abstract =", maxsplit=1)[0] + "out['mounted'] = attempt(unix, '/mnt/d/s')"
    assert probes.run(box, body, **listeners["values"])["mounted"] == "ok"
