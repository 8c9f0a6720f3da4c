"""Protocols below the socket families that everybody needs."""

from __future__ import annotations

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.judge import judge
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

# linux/netlink.h, without 0 (routes), and linux/in.h with the type that each is made with.
_PROTOCOLS = """
def made(family, kind, protocol):
    return attempt(lambda: socket.socket(family, kind, protocol).close())

STREAM, DATAGRAM, PACKETS = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET
controls["routes"] = made(socket.AF_NETLINK, DATAGRAM, 0)
controls["TCP"], controls["UDP"] = made(socket.AF_INET, STREAM, 6), made(socket.AF_INET, DATAGRAM, 17)
for protocol in range(1, 23):
    out["netlink %d" % protocol] = made(socket.AF_NETLINK, DATAGRAM, protocol)
IP = (("DCCP", 6, 33), ("SCTP", STREAM, 132), ("SCTP, packets", PACKETS, 132), ("UDP-Lite", DATAGRAM, 136), ("L2TP", DATAGRAM, 115),
      ("SMC", STREAM, 256), ("MPTCP", STREAM, 262))
for name, kind, protocol in IP:
    for family in (socket.AF_INET, socket.AF_INET6):
        out["%s over %s" % (name, "IPv4" if family == socket.AF_INET else "IPv6")] = made(family, kind, protocol)
"""


@probe("B28-protocols", "Few protocols of the kernel can be asked for", claim="kernel")
async def protocols(arena: Arena) -> Verdict:
    """Netlink is for routes only: not for the firewall, the audit, modules or devices; IP has TCP, UDP and ICMP, and none of the
    protocols that are modules which anybody can have loaded by asking.
    """
    out, controls = await arena.attack(_PROTOCOLS)
    refused = {"EPERM", "EACCES", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "EINVAL"}
    by = {
        **dict.fromkeys(("ESOCKTNOSUPPORT", "EINVAL"), "no such socket"),
        "EPERM": "system call filter or no privilege",
        **dict.fromkeys(("EAFNOSUPPORT", "EPROTONOSUPPORT"), "system call filter or no such protocol"),
    }
    return judge(out, controls, refused=refused, by=by)
