"""Mutants of ids, capabilities and Landlock."""

from __future__ import annotations

from isandbox_mutants.frame import Edit, Mutant, change, drop

from isandbox_backends._shared.plan import Allow, IdMaps, IdUse, Landlock, Mode, ModeRecord
from isandbox_backends.seccomp import ids, landlock

_SAME_UID = {"execute.c": [("SYS (setresgid, gid, gid, gid)", "0"), ("SYS (setresuid, uid, uid, uid)", "0")]}
_RANGE_OF_ROOT, _ONE_RANGE = "0 0 65536", f"0 {ids.ROOT_RANGES.start} {ids.LENGTH}"

IDS = (
    Mutant(
        "a user namespace that the caller owns",
        (change(IdMaps, {"use": lambda use: use & ~IdUse.OWNER}),),
        who="root",
    ),
    Mutant("commands with the helper's uid", source=_SAME_UID, who="root"),
    Mutant(
        "not split, and the host's root", (change(ModeRecord, {"flags": lambda flags: flags & ~Mode.SPLIT_UID}),), who="root"
    ),
    Mutant("the host's own ids", (change(IdMaps, {"uid_map": _RANGE_OF_ROOT, "gid_map": _RANGE_OF_ROOT}),), who="root"),
    Mutant(
        "one range of ids for all sandboxes",
        (change(IdMaps, {"uid_map": _ONE_RANGE, "gid_map": _ONE_RANGE, "owner": ids.ROOT_RANGES.start + 1}),),
        who="root",
    ),
    Mutant(
        "the caller's groups kept", source={"confine.c": [('must (SYS (setgroups, 0, 0), "setgroups", "");', "")]}, who="root"
    ),
)

_KEEP_ALL = ("u32 keep = kept_capabilities ();", "u32 keep = ~0u;")
_NOT_COMPARED = ("if (memcmp (sets, now, sizeof sets) != 0)", "if (0)")
_KEPT = (_KEEP_ALL, ("u32 sets[6] = { keep, keep, 0, 0, 0, 0 }", "u32 sets[6] = { ~0u, ~0u, keep, 0x1ff, 0x1ff, 0x1ff }"))
# They survive a change of uid and an exec: the ambient set, which no-setuid-fix-up keeps.
_INHERITED = {
    "confine.c": [
        *_KEPT,
        _NOT_COMPARED,
        ("PR_SET_SECUREBITS, SECUREBITS,", "PR_SET_SECUREBITS, 0x01 | 0x02 | 0x04,"),
        ("for (int cap = 0; (r = SYS (prctl, PR_CAPBSET_DROP, cap, 0, 0, 0)) == 0; cap++)", "for (r = -EINVAL; 0;)"),
        (
            'fail ("capabilities", "a set did not shrink", -EPERM);\n',
            ";\n  for (long cap = 0; cap < 41; cap++)\n    SYS (prctl, PR_CAP_AMBIENT, 2, cap, 0, 0);\n",
        ),
    ]
}
_BOUNDING = ("for (int cap = 0; (r = SYS (prctl, PR_CAPBSET_DROP, cap, 0, 0, 0)) == 0; cap++)", "for (r = -EINVAL; 0;)")
_NO_NEW_PRIVS = ('must (SYS (prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs", "");', "")
_LATE = [
    ("  drop_capabilities ();\n", ""),
    ('must (SYS (prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), "seccomp", "load");',
     'must (SYS (prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), "seccomp", "load");\n  drop_capabilities ();'),
]  # fmt: skip

PRIVILEGES = (
    Mutant("all capabilities kept by commands", source=_INHERITED),
    Mutant("all capabilities kept by the helper", source={"confine.c": [_KEEP_ALL, _NOT_COMPARED]}),
    Mutant("the bounding set kept", source={"confine.c": [_BOUNDING]}),
    Mutant(
        "no securebits",
        source={"confine.c": [('must (SYS (prctl, PR_SET_SECUREBITS, SECUREBITS, 0, 0, 0), "securebits", "");', "")]},
    ),
    Mutant("no_new_privs not set", source={"confine.c": [_NO_NEW_PRIVS]}),
    Mutant("no_new_privs not set, capabilities dropped last", source={"confine.c": [_NO_NEW_PRIVS, *_LATE]}),
    Mutant(
        "the helper dumpable",
        source={
            "confine.c": [('must (SYS (prctl, PR_SET_DUMPABLE, 0, 0, 0, 0), "dumpable", "");', "")],
            "execute.c": [
                ("(r = SYS (prctl, PR_SET_DUMPABLE, 0, 0, 0, 0)) < 0", "(r = SYS (prctl, PR_SET_DUMPABLE, 1, 0, 0, 0)) < 0")
            ],
        },
    ),
    Mutant(
        "the caller's keyring",
        source={"confine.c": [("if (plan.mode->flags & MODE_KEYRING)", "if (0)")]},
    ),
)


def _allowing(right: int) -> Edit:
    """Landlock does not ask about this right."""
    return change(Landlock, {"handled": lambda handled: handled & ~right})


_RIGHTS = {
    "execute": landlock.EXECUTE,
    "write files": landlock.WRITE_FILE,
    "read files": landlock.READ_FILE,
    "read directories": landlock.READ_DIR,
    "remove": landlock.REMOVE_DIR | landlock.REMOVE_FILE,
    "make devices": landlock.MAKE_CHAR | landlock.MAKE_BLOCK,
    "make files": landlock.MAKE_REG | landlock.MAKE_DIR | landlock.MAKE_SYM | landlock.MAKE_FIFO | landlock.MAKE_SOCK,
    "truncate": landlock.TRUNCATE,
    "control devices": landlock.IOCTL_DEV,
}

LANDLOCK = (
    Mutant("no Landlock", (change(Landlock, {"handled": 0, "scopes": 0}), drop(Allow))),
    Mutant("Landlock without scopes", (change(Landlock, {"scopes": 0}),)),
    Mutant("Landlock: writes anywhere", (change(Allow, {"access": landlock.ALL}, path="/"),)),
    *(Mutant(f"Landlock without the right to {name}", (_allowing(right),)) for name, right in _RIGHTS.items()),
    # The kernel denies this right also where a rule set does not handle it: it is given, everywhere.
    Mutant("Landlock without the right to refer", (change(Allow, {"access": lambda now: now | landlock.REFER}, path="/"),)),
)
