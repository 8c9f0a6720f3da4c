"""Which ids a sandbox has: outside those of nobody else, inside 0 for the helper and 1000 for commands. Pure.

Root takes ranges of 1,024 where no convention has put anybody. systemd's list of ids (its page "Users, Groups, UIDs and GIDs")
gives 524288 to 1879048191 to containers and 2147352576 on to files of foreign origin, and warns of what is above 2^31; SSSD and
FreeIPA hand out ids up to 2000200000 (sssd-ldap(5), ``ldap_idmap_range_max``). What is between is free, but for what
/etc/subuid and /etc/subgid say.

An ordinary user takes two of its subordinate ids: one for the helper, one for commands. Where something of the host is mounted
commands keep the user's own id, for such files would belong to nobody who can use them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from isandbox_backends._shared.bounds import ROOT_IDS
from isandbox_backends._shared.plan import IdMaps, IdUse
from isandbox_backends.seccomp.mounts import COMMAND_UID

if TYPE_CHECKING:
    from isandbox_backends.seccomp.subordinate import Grant

LENGTH = 1024
ROOT_RANGES = range(ROOT_IDS.start, ROOT_IDS.stop, LENGTH)
# The ids of a container's own users; rootless engines take them from the same entries, from the first one on.
_LOW_IDS = 4096


@dataclass(frozen=True, slots=True)
class Ids:
    """``split``: commands have another id than the helper. ``command_owner``: theirs outside, where it is not the caller's.
    ``early``: the caller's id is not mapped, so that mount sources are opened before.
    """

    maps: IdMaps
    split: bool = False
    early: bool = False
    command_owner: int | None = None


def of_range(first: int, use: IdUse = IdUse.NONE) -> Ids:
    """Root's. The namespace is owned by one of the sandbox's ids too, which neither the helper nor a command has."""
    lines = f"0 {first} {LENGTH}"
    return Ids(IdMaps(lines, lines, use | IdUse.OWNER, first + 1), split=True, early=True, command_owner=first + COMMAND_UID)


def single(uid: int, gid: int) -> Ids:
    """The one id that every user may map: helper and commands share it."""
    return Ids(IdMaps(f"{COMMAND_UID} {uid} 1", f"{COMMAND_UID} {gid} 1"))


def subordinate(grant: Grant, first: int, *, own: bool, use: IdUse = IdUse.NONE) -> Ids:
    """Two of the grant's ids from uid ``first`` on; ``own``: commands have the user's. In the words of the namespace that has
    all of the grant (`space.lines_of`).
    """
    number = first - grant.uids.start
    command = len(grant.uids) if own else number + 1
    lines = f"0 {number} 1\n{COMMAND_UID} {command} 1"
    return Ids(IdMaps(lines, lines, use | IdUse.OUTER), split=True, command_owner=None if own else first + 1)


def pairs(grant: Grant) -> range:
    """The first uid of each pair that a sandbox may have: of a long range only the upper half."""
    count = len(grant.uids)
    start = count // 2 if count >= 2 * _LOW_IDS else 0
    return grant.uids[start : count - 1 : 2]
