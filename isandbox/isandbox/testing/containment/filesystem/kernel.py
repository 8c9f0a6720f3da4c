"""The kernel's control files, and what it tells about the host."""

from __future__ import annotations

import os
from pathlib import Path

from isandbox.policy import Mount
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.filesystem.hostfiles import present
from isandbox.testing.containment.judge import REFUSED, judge
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

# A file that opens there is its own process's, or a setting of a namespace; the latter counts where the namespace is its own.
_WRITABLE = """
named = ["/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug", "/proc/sys/kernel/hostname",
         "/proc/sys/vm/overcommit_memory", "/proc/sys/vm/drop_caches", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/net/ipv4/ip_forward",
         "/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/pid_max", "/proc/sys/kernel/ns_last_pid", "/proc/1/oom_score_adj", "/proc/1/uid_map",
         "/proc/1/setgroups", "/proc/irq/default_smp_affinity", "/proc/kcore", "/proc/kmsg", "/proc/mtrr", "/proc/scsi/scsi", "/proc/acpi/wakeup",
         "/sys/kernel/uevent_helper", "/sys/kernel/security/landlock", "/sys/power/state", "/sys/kernel/mm/ksm/run", "/sys/fs/cgroup/release_agent",
         "/sys/firmware/efi/vars", "/sys/module/kernel/parameters/panic"]
own = ["/proc/self/" + name for name in ("uid_map", "gid_map", "setgroups", "attr/current", "attr/exec", "mem", "oom_score_adj", "oom_adj",
       "clear_refs", "coredump_filter", "timerslack_ns", "sched", "autogroup", "comm", "projid_map", "make-it-fail", "loginuid", "timens_offsets")]
debugging = ("/sys/kernel/debug", "/sys/kernel/tracing")  # where opening may be an action
checked, opening = 0, set()
walked = [path for top in ("/proc", "/sys", "/run") for path, status in below(top, skip=debugging, most=60000, seconds=15)
          if stat.S_ISREG(status.st_mode)]
for path in named + own + walked:
    checked += 1
    if opened(path, os.O_WRONLY) == "ok":
        opening.add(path)
mine = ("/proc/self/", "/proc/thread-self/", "/proc/%d/" % os.getpid())
for path in sorted(opening):
    # Whoever opens these of another process is asked for the right when he writes.
    late = path.split("/")[2].isdigit() and (path.split("/")[-2] == "attr" or path.endswith("/timerslack_ns"))
    out[path] = "its own process" if path.startswith(mine) else "asked at the write" if late else "ok"
for path in named:
    out.setdefault(path, opened(path, os.O_WRONLY))
controls["opening for writing"] = opened("/dev/null", os.O_WRONLY)
controls["looked at many"] = "ok" if checked > 200 else str(checked)
out["count"], out["checked"] = len(opening), checked
for name in ("net", "ipc", "uts", "user", "pid"):
    out["namespace " + name] = os.readlink("/proc/self/ns/" + name)
"""
# By the namespace that a setting below /proc/sys belongs to.
_OF_NAMESPACES = {
    "/proc/sys/net/": "net", "/proc/sys/kernel/ns_last_pid": "pid", "/proc/sys/kernel/hostname": "uts", "/proc/sys/user/": "user",
    "/proc/sys/kernel/domainname": "uts", "/proc/sys/fs/mqueue/": "ipc", "/proc/sys/kernel/sem": "ipc", "/proc/sys/kernel/shm": "ipc",
    "/proc/sys/kernel/msg": "ipc",
}  # fmt: skip
_OWN = ("its own process", "its own namespace", "its own /run", "asked at the write")


@probe("A16", "No control file of the kernel opens for writing", claim="kernel")
async def control_files(arena: Arena) -> Verdict:
    """Nothing below /proc, /sys and /run opens for writing but what belongs to the program itself or to a namespace of the
    sandbox. The figure counts all that opens, those included. Files are opened and closed, never written.
    """
    out, controls = await arena.attack(_WRITABLE)
    figures = {"writable_kernel_files": int(out.pop("count"))}
    checked = out.pop("checked")
    theirs = {name: out.pop(f"namespace {name}") for name in ("net", "ipc", "uts", "user", "pid")}
    ours = {name: _namespace(name) for name in theirs}
    for path, answer in out.items():
        if answer != "ok":
            continue
        space = next((space for prefix, space in _OF_NAMESPACES.items() if path.startswith(prefix)), None)
        if space is not None and theirs[space] != ours[space]:
            out[path] = "its own namespace"
        elif path.startswith("/run/") and not present([path]):
            out[path] = "its own /run"
    verdict = judge(out, controls, refused={*REFUSED, *_OWN})
    return Verdict(verdict.outcome, verdict.mechanism, f"{checked} files; {verdict.detail}", figures)


def _namespace(name: str) -> str:
    return os.readlink(f"/proc/self/ns/{name}")


_CGROUPS = """
mounts = [line.split() for line in content("/proc/self/mounts").splitlines()]
controls["a mount table"] = "ok" if len(mounts) > 1 else "none"
controls["opening for writing"] = opened("/dev/null", os.O_WRONLY)
tops = [mount[1] for mount in mounts if mount[2] in ("cgroup", "cgroup2")]
tops += ["/sys/fs/cgroup"] + ["/sys/fs/cgroup/" + name for name in ("memory", "devices", "rdma", "pids", "cpu", "unified", "freezer")]
files = ("release_agent", "notify_on_release", "devices.allow", "devices.deny", "cgroup.procs", "cgroup.threads", "tasks", "cgroup.subtree_control",
         "cgroup.freeze", "cgroup.kill", "memory.max", "memory.limit_in_bytes", "pids.max", "cpu.max")
for top in tops:
    for name in files:
        for path in (os.path.join(top, name), os.path.join(top, "..", name)):
            out[path] = opened(path, os.O_WRONLY)
    out["make " + top] = attempt(os.mkdir, os.path.join(top, "made-by-probe"))
    if out["make " + top] == "ok":
        os.rmdir(os.path.join(top, "made-by-probe"))

point = place().encode()

def in_own_namespaces(flags, kind, options):
    def inside():
        if flags:
            answer = call(NR["unshare"], flags)
            if answer != "ok":
                return answer
        answer = call(NR["mount"], b"none", point, kind, 0, options)
        call(NR["umount2"], point, 2)  # what could be mounted there is not left
        return answer
    return in_child(inside)

for name, flags in (("mount", 0), ("mount in a user namespace", 0x10000000 | 0x20000 | 0x2000000)):
    for options in (b"rdma", b"memory", b"devices", b"none,name=probe"):
        out["%s %s" % (name, options.decode())] = in_own_namespaces(flags, b"cgroup", options)
    out[name + " v2"] = in_own_namespaces(flags, b"cgroup2", None)
"""


@probe("A17", "Control groups are out of reach", claim="kernel")
async def control_groups(arena: Arena) -> Verdict:
    """No file of a control group opens for writing, in those that are mounted and those above them; no group can be made, and
    no hierarchy mounted, also in namespaces of its own: no release agent, no device list, no way out of the group.
    """
    out, controls = await arena.attack(_CGROUPS)
    by = {"ENOENT": "not mounted", "ENOTDIR": "not mounted", "ENOSPC": "no user namespace"}
    return judge(out, controls, refused=REFUSED | {"ENOSPC"}, by=by)


_TOLD = """
controls["/proc/version"] = "ok" if "Linux" in content("/proc/version") else content("/proc/version")
for name in files:
    text = content(name)
    if name == "/proc/kallsyms" and text.strip():
        text = "masked" if not any(line.split()[0].strip("0") for line in text.splitlines()) else "addresses"
    elif name == "/proc/iomem" and text.strip():
        text = "masked" if not any(line.split("-")[0].strip(" 0") for line in text.splitlines() if "-" in line) else "addresses"
    elif text.strip() == "":
        text = "masked"
    elif text not in errno.errorcode.values():
        text = "told"
    out[name] = text
for name in directories:
    try:
        out[name] = "told" if os.listdir(name) else "masked"
    except OSError as error:
        out[name] = word(error.errno)
for name in unread:
    out[name] = opened(name)
buffer = ctypes.create_string_buffer(4096)
for name, action in (("all", 3), ("size", 10)):
    out["syslog " + name] = call(NR["syslog"], action, buffer, 4096)
"""
_FILES = (
    "/proc/kallsyms", "/proc/keys", "/proc/key-users", "/proc/interrupts", "/proc/modules", "/proc/timer_list", "/proc/sched_debug",
    "/proc/iomem", "/proc/latency_stats", "/proc/vmallocinfo", "/proc/slabinfo", "/proc/pagetypeinfo", "/proc/cmdline",
    "/sys/class/dmi/id/product_uuid", "/sys/class/dmi/id/product_name", "/sys/class/dmi/id/sys_vendor",
    "/sys/devices/virtual/powercap/intel-rapl/intel-rapl:0/energy_uj", "/sys/kernel/notes", "/sys/kernel/vmcoreinfo",
)  # fmt: skip
_DIRECTORIES = ("/proc/acpi", "/proc/asound", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap", "/sys/class/net")
_UNREAD = ("/proc/kcore", "/proc/kmsg", "/dev/kmsg", "/dev/mem", "/sys/firmware/acpi/tables/DSDT", "/sys/kernel/debug")


@probe("A18", "What the kernel knows of the host is not told", claim="kernel")
async def told(arena: Arena) -> Verdict:
    """Kernel addresses, keys, interrupts, modules, the boot line, firmware, machine ids and the kernel's log are empty, closed
    or not there. Files whose addresses are all zero tell nothing.
    """
    files, directories, unread = present(_FILES), present(_DIRECTORIES), present(_UNREAD)
    out, controls = await arena.attack(_TOLD, files=files, directories=directories, unread=unread)
    by = {"masked": "masked", "ENOENT": "not in the mount view"}
    return judge(out, controls, refused=REFUSED | {"masked"}, by=by)


_PATHS = """
table = content("/proc/self/mounts", 1 << 20)
controls["a mount table"] = "ok" if "/mnt/place" in table else "the mount is not in it"
out["mount table"] = "told" if source in table else "hidden"
for name in ("/etc/mtab", "/proc/mounts", "/proc/1/mounts", "/proc/self/mountstats"):
    out[name] = "told" if source in content(name, 1 << 20) else "hidden"
"""


@probe("A18-mounts", "The mount table does not tell where on the host a mount comes from", claim="kernel")
async def mount_table(arena: Arena) -> Verdict:
    """The path of a mounted directory on the host is in none of the tables of mounts by target. (``mountinfo`` gives the path
    below the root of its file system; no bind mount can hide that.)
    """
    place = arena.directory()
    box = await arena.create(mounts=[Mount(str(place), "/mnt/place")])
    out, controls = await arena.attack(_PATHS, box=box, source=Path(place).name)
    return judge(out, controls, refused={"hidden"}, by={"hidden": "detached root"})
