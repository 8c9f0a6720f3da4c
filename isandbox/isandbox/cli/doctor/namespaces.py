"""Checks of what the kernel lets this user do: namespaces, ids, Landlock."""

from __future__ import annotations

import re
import shlex

from isandbox.cli.doctor.view import HostView, Row, whole_number

_APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_PROFILE = "/etc/apparmor.d/isandbox-helper"
_FEW = 64
_PLAIN_PATH = re.compile(r'/[^"\\*?\[\]{}@^,#\x00-\x1f\x7f]+\Z')
_MODULES = re.compile(r"[a-z0-9_,]+\Z", re.ASCII)
_FIRST_KERNEL = (5, 12)  # mount_setattr


def kernel(view: HostView) -> Row:
    """Linux 5.12 for mount_setattr, 5.13 for Landlock, 6.2 to tell that a process had all its descriptors open."""
    seen = f"{view.platform} {view.release}".strip()
    upgrade = view.install("linux-image-generic", "kernel", "linux-lts") + " && sudo reboot"
    if view.platform != "linux":
        return Row("kernel", "fail", f"{seen}: the native backend is for Linux", "")
    if view.kernel < _FIRST_KERNEL:
        return Row("kernel", "fail", f"{seen}: older than 5.12, which has mount_setattr", upgrade)
    if view.kernel < (5, 13):
        return Row("kernel", "fail", f"{seen}: older than 5.13, which has Landlock; waive landlock to do without", upgrade)
    if view.kernel < (6, 2):
        return Row("kernel", "warn", f"{seen}: before 6.2 nobody is told that a command met its limit of open files", upgrade)
    return Row("kernel", "ok", seen)


def user_namespaces(view: HostView) -> Row:
    """How many may be made."""
    most = view.number("/proc/sys/user/max_user_namespaces")
    fix = "sudo sysctl -w user.max_user_namespaces=65536"
    if most is None:
        if view.platform != "linux":
            return Row("user_namespaces", "not applicable", "not Linux")
        return Row("user_namespaces", "fail", "this kernel has none (CONFIG_USER_NS)")
    if most == 0:
        return Row("user_namespaces", "fail", "user.max_user_namespaces is 0", fix)
    return Row(
        "user_namespaces", "warn" if most < _FEW else "ok", f"user.max_user_namespaces is {most}", fix if most < _FEW else ""
    )


def debian_userns(view: HostView) -> Row:
    """The switch that Debian's and some other kernels have."""
    value = view.number("/proc/sys/kernel/unprivileged_userns_clone")
    if value is None:
        return Row("debian_userns", "not applicable", "this kernel has no kernel.unprivileged_userns_clone")
    if value == 0 and view.uid != 0:
        return Row(
            "debian_userns",
            "fail",
            "kernel.unprivileged_userns_clone is 0: only root may make user namespaces",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        )
    return Row("debian_userns", "ok", f"kernel.unprivileged_userns_clone is {value}")


def apparmor_userns(view: HostView) -> Row:
    """Ubuntu's rule, from 23.10 on: who has no profile with ``userns`` gets a user namespace without rights."""
    value = view.number(_APPARMOR)
    if value is None:
        return Row("apparmor_userns", "not applicable", "AppArmor does not restrict user namespaces here")
    if value == 0:
        return Row("apparmor_userns", "ok", "kernel.apparmor_restrict_unprivileged_userns is 0")
    if view.uid == 0:
        return Row("apparmor_userns", "ok", "AppArmor restricts user namespaces of ordinary users; this is root")
    if view.native is None:
        return Row("apparmor_userns", "ok", "AppArmor restricts user namespaces; the helper has a profile that may have them")
    return Row(
        "apparmor_userns",
        "fail",
        "kernel.apparmor_restrict_unprivileged_userns is 1: user namespaces have no rights",
        apparmor_fix(view.helper),
    )


def apparmor_fix(helper: str) -> str:
    """One line that writes a profile for the helper, with which it alone may have user namespaces, and loads it. Empty where its path
    holds what a profile would take for a pattern, a variable, or its own end.

    Whoever may write to the helper's file has them too.
    """
    if not _PLAIN_PATH.match(helper):
        return ""
    profile = (
        f'abi <abi/4.0>,\ninclude <tunables/global>\nprofile isandbox-helper "{helper}" flags=(unconfined) {{\n  userns,\n}}\n'
    )
    text = profile.replace("\n", "\\n")
    return f"printf '%b' {shlex.quote(text)} | sudo tee {_PROFILE} >/dev/null && sudo apparmor_parser -r {_PROFILE}"


def subordinate_ids(view: HostView) -> Row:
    """With them commands of an ordinary user have ids of their own."""
    if view.uid == 0:
        return Row("subordinate_ids", "not applicable", "sandboxes of root have ids of their own")
    if not {"newuidmap", "newgidmap"} <= view.programs:
        fix = view.install("uidmap", "shadow-utils", "shadow-uidmap")
        return Row("subordinate_ids", "warn", "newuidmap and newgidmap are not installed: commands share the user's id", fix)
    owners = (view.user, str(view.uid))
    lacking = [path for path in ("/etc/subuid", "/etc/subgid") if not _has_line(view.files.get(path, ""), owners)]
    if lacking:
        fix = _add_ids(view) if view.user else ""
        return Row(
            "subordinate_ids", "warn", f"{' and '.join(lacking)} give this user nothing: commands share the user's id", fix
        )
    return Row("subordinate_ids", "ok", "newuidmap, newgidmap, and ids in /etc/subuid and /etc/subgid")


def _add_ids(view: HostView) -> str:
    """65,536 ids above all that the two files give to anybody: who shares ids shares files."""
    first = 100_000
    for path in ("/etc/subuid", "/etc/subgid"):
        for line in view.files.get(path, "").splitlines():
            _, _, numbers = line.partition(":")
            start, count = (whole_number(number) for number in (numbers + ":").split(":")[:2])
            if start is not None and count is not None:
                first = max(first, start + count)
    ids = f"{first}-{first + 65_535}"
    return f"sudo usermod --add-subuids {ids} --add-subgids {ids} {shlex.quote(view.user)}"


def _has_line(text: str, owners: tuple[str, ...]) -> bool:
    return any(line.partition(":")[0] in owners for line in text.splitlines() if line.count(":") == 2)


def landlock(view: HostView) -> Row:
    """What the helper found when a sandbox started; else what the kernel says of its security modules."""
    word = view.layers.get("landlock", "")
    if word.startswith("enforced"):
        return Row("landlock", "ok", word.removeprefix("enforced").strip(" ()") or "in force")
    listed = view.files.get("/sys/kernel/security/lsm", "").strip()
    if view.platform != "linux" or view.kernel < (5, 13):
        return Row(
            "landlock", "fail" if view.platform == "linux" else "not applicable", "this kernel has no Landlock (Linux 5.13)"
        )
    if listed and "landlock" not in listed.split(","):
        boot = f"lsm=landlock,{listed}"
        fix = f"sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&{boot} /' /etc/default/grub && sudo update-grub && sudo reboot"
        seen = f"not among the security modules that are on: {listed}"
        return Row("landlock", "fail", seen, fix if _MODULES.match(listed) else "")
    if listed:
        return Row("landlock", "ok", "among the security modules that are on")
    return Row("landlock", "warn", "cannot be told: no sandbox has started, and /sys/kernel/security is not mounted")
