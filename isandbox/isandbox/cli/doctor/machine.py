"""Checks of what is installed and mounted: the helper, control groups, file systems."""

from __future__ import annotations

import shlex

from isandbox.cli.doctor.view import HostView, Row

_REINSTALL = "pip install --force-reinstall --no-deps isandbox"
_DELEGATED = "systemd-run --user --scope -p Delegate=yes -- COMMAND"
_UNIFIED = (
    "sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&systemd.unified_cgroup_hierarchy=1 /' /etc/default/grub && "
    "sudo update-grub && sudo reboot"
)
_GRUBBY = "sudo grubby --update-kernel=ALL --args=systemd.unified_cgroup_hierarchy=1 && sudo reboot"


def helper(view: HostView) -> Row:
    """The program that makes sandboxes; a C compiler builds it when isandbox is installed."""
    if view.platform != "linux":
        return Row("helper", "not applicable", "not Linux")
    if view.helper_built:
        return Row("helper", "ok", f"built: {view.helper}")
    if view.programs & {"cc", "gcc", "clang"}:
        return Row("helper", "fail", f"not built, though there is a C compiler: {view.helper} is missing", _REINSTALL)
    install = view.install("gcc libc6-dev", "gcc glibc-devel", "gcc musl-dev")
    return Row("helper", "fail", "not built: there was no C compiler at installation", f"{install} && {_REINSTALL}")


def executable(view: HostView) -> Row:
    """The helper has to be executed where it is."""
    mount = view.mount_of(view.helper) if view.helper.startswith("/") else None
    if mount is None:
        return Row("executable", "not applicable", "it cannot be told where the package is mounted")
    if "noexec" in mount.options:
        fix = f"sudo mount -o remount,exec {shlex.quote(mount.point)}"
        return Row("executable", "fail", f"{mount.point}, where the helper is, is mounted noexec", fix)
    return Row("executable", "ok", f"{mount.point} lets programs be executed")


def cgroups(view: HostView) -> Row:
    """Whether control groups can hold quotas, which the backend has tried; without them memory and CPU time are watched."""
    kinds = {mount.kind for mount in view.mounts() if mount.kind in {"cgroup", "cgroup2"}}
    version = {frozenset({"cgroup"}): "v1", frozenset({"cgroup2"}): "v2"}.get(frozenset(kinds), "v1 and v2")
    if not kinds:
        return Row("cgroups", "warn", "none are mounted: memory and CPU time are watched")
    if view.native is None and view.memory == "kernel":
        return Row("cgroups", "ok", f"{version}, and this process may make its own")
    if not view.memory:
        return Row("cgroups", "warn", f"{version}; whether this process can make its own is not known, for no sandbox starts")
    if view.uid != 0 and "cgroup" in kinds:
        seen = f"{version}: only root can make groups; memory and CPU time are watched"
        return Row("cgroups", "warn", seen, _GRUBBY if "grubby" in view.programs else _UNIFIED)
    seen = f"{version}, and none is delegated to this process: memory and CPU time are watched"
    return Row("cgroups", "warn", seen, _DELEGATED if "/run/systemd/system" in view.present else "")


def overlayfs(view: HostView) -> Row:
    """Of this kernel. No backend needs it yet."""
    if view.platform != "linux":
        return Row("overlayfs", "not applicable", "not Linux")
    if any(line.split()[-1:] == ["overlay"] for line in view.files.get("/proc/filesystems", "").splitlines()):
        return Row("overlayfs", "ok", "in this kernel")
    return Row("overlayfs", "warn", "not loaded; no backend needs it yet", "sudo modprobe overlay")


def proc(view: HostView) -> Row:
    """``hidepid`` hides the processes of other ids, and so those of sandboxes that have ids of their own, from their user."""
    mount = next((one for one in reversed(list(view.mounts())) if one.point == "/proc"), None)
    if view.platform != "linux":
        return Row("proc", "not applicable", "not Linux")
    if mount is None:
        return Row("proc", "fail", "/proc is not mounted", "sudo mount -t proc proc /proc")
    hidden = next((option for option in sorted(mount.options) if option.startswith("hidepid=")), "hidepid=0")
    if hidden in {"hidepid=0", "hidepid=off"} or view.uid == 0:
        return Row("proc", "ok", f"/proc, {hidden}")
    seen = f"/proc is mounted with {hidden}: processes of other ids cannot be seen from here"
    return Row("proc", "warn", seen, "sudo mount -o remount,hidepid=0 /proc")
