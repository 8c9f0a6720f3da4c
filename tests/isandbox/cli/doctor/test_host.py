"""The checks of a host: what each says of a good one and of a bad one. Nothing real is looked at."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from isandbox.cli.doctor import containers, machine, namespaces, read
from isandbox.cli.doctor.checks import CHECKS
from isandbox.cli.doctor.read import read_host
from isandbox.cli.doctor.view import HostView

UNCLONE = "/proc/sys/kernel/unprivileged_userns_clone"
APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
MOST = "/proc/sys/user/max_user_namespaces"
LSM = "/sys/kernel/security/lsm"
LABEL = "/proc/self/attr/current"
HELPER = "/opt/venv/lib/isandbox_backends/_bin/isandbox-helper"
BROKEN = "the layer user_namespace: it may not make namespaces"
MOUNTS = """22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
23 22 0:21 / /proc rw,nosuid,nodev,noexec{proc} - proc proc rw{hidepid}
24 22 0:22 / /opt rw{opt} - ext4 /dev/sdb rw
{cgroups}"""
V1 = "30 22 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
V2 = "31 22 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"


def mounts(cgroups: str = V2, hidepid: str = "", opt: str = "", more: str = "") -> dict[str, str]:
    return {"/proc/self/mountinfo": MOUNTS.format(cgroups=cgroups, hidepid=hidepid, opt=opt, proc="") + "\n" + more}


def host(**changes: Any) -> HostView:
    """A Debian of today, an ordinary user, sandboxes start."""
    view: dict[str, Any] = {
        "release": "6.12.9-amd64",
        "uid": 1000,
        "user": "anna",
        "programs": frozenset({"newuidmap", "newgidmap", "gcc"}),
        "helper": HELPER,
        "layers": {"landlock": "enforced (ABI 6)"},
        "memory": "kernel",
        **changes,
    }
    files = {
        MOST: "65536\n",
        "/etc/subuid": "anna:100000:65536\n",
        "/etc/subgid": "anna:100000:65536\n",
        "/etc/os-release": "ID=debian\n",
        "/proc/filesystems": "nodev\tproc\nnodev\toverlay\n\text4\n",
        "/proc/self/status": "Name:\tpython3\nSeccomp:\t0\nSeccomp_filters:\t0\n",
        **mounts(),
        **view.pop("files", {}),
    }
    return HostView(files={path: text for path, text in files.items() if text is not None}, **view)


BAD = {"native": BROKEN, "layers": {}, "memory": "watched"}
SECCOMP = {"/proc/self/status": "Name:\tx\nSeccomp:\t2\n"}
MASKED = mounts(more="40 23 0:5 / /proc/kcore rw - tmpfs tmpfs rw\n")

SECCOMP_OFF = "--security-opt seccomp=unconfined"

# check, host, state, in what is seen, in the fix
TABLE = [
    (namespaces.kernel, {}, "ok", "6.12", ""),
    (namespaces.kernel, {"release": "5.10.0-30-amd64"}, "fail", "mount_setattr", "linux-image"),
    (namespaces.kernel, {"release": "5.12.1"}, "fail", "Landlock", "reboot"),
    (namespaces.kernel, {"release": "5.15.0-1-generic", "files": {"/etc/os-release": 'ID_LIKE="rhel fedora"\n'}}, "warn", "6.2", "dnf"),
    (namespaces.kernel, {"release": "23.1.0", "platform": "darwin"}, "fail", "darwin", ""),
    (namespaces.kernel, {"release": "unknown"}, "fail", "unknown", "reboot"),
    (namespaces.user_namespaces, {}, "ok", "65536", ""),
    (namespaces.user_namespaces, {"files": {MOST: "0\n"}}, "fail", "is 0", "sysctl -w user.max_user_namespaces=65536"),
    (namespaces.user_namespaces, {"files": {MOST: "8\n"}}, "warn", "is 8", "sysctl -w user.max_user_namespaces=65536"),
    (namespaces.user_namespaces, {"files": {MOST: None}}, "fail", "CONFIG_USER_NS", ""),
    (namespaces.debian_userns, {}, "not applicable", "no kernel.unprivileged_userns_clone", ""),
    (namespaces.debian_userns, {"files": {UNCLONE: "1\n"}}, "ok", "is 1", ""),
    (namespaces.debian_userns, {"files": {UNCLONE: "0\n"}}, "fail", "only root", "sysctl -w kernel.unprivileged_userns_clone=1"),
    (namespaces.debian_userns, {"files": {UNCLONE: "0\n"}, "uid": 0}, "ok", "is 0", ""),
    (namespaces.apparmor_userns, {}, "not applicable", "does not restrict", ""),
    (namespaces.apparmor_userns, {"files": {APPARMOR: "0\n"}}, "ok", "is 0", ""),
    (namespaces.apparmor_userns, {"files": {APPARMOR: "1\n"}}, "ok", "has a profile", ""),
    (namespaces.apparmor_userns, {"files": {APPARMOR: "1\n"}, **BAD}, "fail", "have no rights", "apparmor_parser -r"),
    (namespaces.apparmor_userns, {"files": {APPARMOR: "1\n"}, "uid": 0, **BAD}, "ok", "this is root", ""),
    (namespaces.subordinate_ids, {}, "ok", "/etc/subuid", ""),
    (namespaces.subordinate_ids, {"uid": 0}, "not applicable", "root", ""),
    (namespaces.subordinate_ids, {"programs": frozenset()}, "warn", "not installed", "apt-get install uidmap"),
    (namespaces.subordinate_ids, {"files": {"/etc/subgid": "bert:165536:65536\n#x\n"}}, "warn", "/etc/subgid give", "--add-subuids 231072-296607"),
    (namespaces.subordinate_ids, {"files": {"/etc/subuid": None}, "user": "a;b"}, "warn", "give this user nothing", "'a;b'"),
    (namespaces.landlock, {}, "ok", "ABI 6", ""),
    (namespaces.landlock, {**BAD, "files": {LSM: "lockdown,yama"}}, "fail", "yama", "lsm=landlock,lockdown,yama"),
    (namespaces.landlock, {**BAD, "files": {LSM: "landlock,yama"}}, "ok", "among", ""),
    (namespaces.landlock, BAD, "warn", "cannot be told", ""),
    (namespaces.landlock, {**BAD, "release": "5.10.1"}, "fail", "5.13", ""),
    (containers.container, {}, "not applicable", "no sign", ""),
    (containers.container, {"present": frozenset({"/.dockerenv"})}, "ok", "sandboxes start", ""),
    (containers.container, {**BAD, "present": frozenset({"/.dockerenv"}), "files": {**SECCOMP, **MASKED, LABEL: "docker-default (enforce)\n"}},
     "fail", "docker-default", f"docker run {SECCOMP_OFF} --security-opt systempaths=unconfined --security-opt apparmor=unconfined IMAGE"),
    (containers.container, {**BAD, "present": frozenset({"/.dockerenv"}), "files": MASKED}, "fail", "masked",
     "docker run --security-opt systempaths=unconfined IMAGE"),
    (containers.container, {**BAD, "present": frozenset({"/run/.containerenv"}), "files": {**MASKED, LABEL: "system_u:system_r:container_t:s0\0"}},
     "fail", "container_t", "podman run --security-opt unmask=ALL --security-opt label=disable IMAGE"),
    (containers.container, {**BAD, "files": {"/proc/1/cgroup": "0::/kubepods/pod1\n", **SECCOMP}}, "fail", "kubepods", "seccomp=unconfined"),
    (containers.container, {**BAD, "env": {"container": "lxc"}}, "warn", "none of its walls", ""),
    (containers.docker_socket, {}, "not applicable", "no container engine", ""),
    (containers.docker_socket, {"present": frozenset({"/run/docker.sock"})}, "ok", "is root on this machine", ""),
    (containers.docker_socket, {"present": frozenset({"/run/user/1000/docker.sock"})}, "warn", "rootless",
     "export DOCKER_HOST=unix:///run/user/1000/docker.sock"),
    (containers.docker_socket, {"present": frozenset({"/x/docker.sock", "/run/docker.sock"}), "env": {"XDG_RUNTIME_DIR": "/x"}}, "warn",
     "there too", "unix:///x/docker.sock"),
    (containers.docker_socket, {"env": {"DOCKER_HOST": "unix:///y"}, "present": frozenset({"/run/docker.sock"})}, "ok", "unix:///y", ""),
    (containers.wsl, {}, "not applicable", "not WSL", ""),
    (containers.wsl, {"release": "4.4.0-19041-Microsoft"}, "fail", "WSL1", "--set-version"),
    (containers.wsl, {"release": "5.15.167.4-microsoft-standard-WSL2"}, "warn", "WSL2", "wsl.exe --update"),
    (containers.wsl, {"release": "6.12.1-microsoft-standard-WSL2"}, "ok", "WSL2", ""),
    (containers.selinux, {}, "not applicable", "not on", ""),
    (containers.selinux, {"files": {"/sys/fs/selinux/enforce": "1", LABEL: "user_u:user_r:user_t:s0\0"}}, "ok", "user_t:s0; sandboxes start", ""),
    (containers.selinux, {**BAD, "files": {"/sys/fs/selinux/enforce": "1", LABEL: "user_u:user_r:user_t:s0\0"}}, "fail", "user_t", "semodule -i"),
    (containers.selinux, {**BAD, "files": {"/sys/fs/selinux/enforce": "0"}}, "ok", "permissive", ""),
    (containers.selinux, {**BAD, "files": {"/sys/fs/selinux/enforce": "1", LABEL: "u:r:unconfined_t:s0"}}, "ok", "unconfined_t", ""),
    (machine.helper, {}, "ok", HELPER, ""),
    (machine.helper, {"helper_built": False, **BAD}, "fail", "though there is a C compiler", "pip install"),
    (machine.helper, {"helper_built": False, "programs": frozenset(), **BAD}, "fail", "no C compiler", "apt-get install gcc libc6-dev && pip"),
    (machine.helper, {"helper_built": False, "programs": frozenset(), "files": {"/etc/os-release": "ID=alpine\n"}}, "fail", "no C", "apk add gcc musl-dev"),
    (machine.helper, {"platform": "darwin"}, "not applicable", "not Linux", ""),
    (machine.executable, {}, "ok", "/opt", ""),
    (machine.executable, {"files": mounts(opt=",noexec"), **BAD}, "fail", "/opt, where the helper is", "mount -o remount,exec /opt"),
    (machine.executable, {"helper": ""}, "not applicable", "cannot be told", ""),
    (machine.cgroups, {}, "ok", "v2, and this process", ""),
    (machine.cgroups, {"memory": "watched", "present": frozenset({"/run/systemd/system"})}, "warn", "none is delegated", "Delegate=yes"),
    (machine.cgroups, {"memory": "watched"}, "warn", "none is delegated", ""),
    (machine.cgroups, {"memory": "watched", "files": mounts(V1)}, "warn", "v1: only root", "unified_cgroup_hierarchy=1"),
    (machine.cgroups, {"memory": "watched", "files": mounts(V1), "programs": frozenset({"grubby"})}, "warn", "v1", "grubby"),
    (machine.cgroups, {"memory": ""}, "warn", "not known", ""),
    (machine.cgroups, {"files": mounts(f"{V1}\n{V2}")}, "ok", "v1 and v2", ""),
    (machine.cgroups, {"memory": "watched", "files": mounts("")}, "warn", "none are mounted", ""),
    (machine.overlayfs, {}, "ok", "in this kernel", ""),
    (machine.overlayfs, {"files": {"/proc/filesystems": "nodev\tproc\n"}}, "warn", "not loaded", "modprobe overlay"),
    (machine.proc, {}, "ok", "hidepid=0", ""),
    (machine.proc, {"files": mounts(hidepid=",hidepid=invisible")}, "warn", "hidepid=invisible", "remount,hidepid=0"),
    (machine.proc, {"files": mounts(hidepid=",hidepid=2"), "uid": 0}, "ok", "hidepid=2", ""),
    (machine.proc, {"files": {"/proc/self/mountinfo": ""}}, "fail", "not mounted", "mount -t proc"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "changes", "state", "seen", "fix"), TABLE, ids=lambda value: getattr(value, "__name__", ""))
def test_checks(check: Any, changes: dict[str, Any], state: str, seen: str, fix: str) -> None:
    """Each check tells a good host from a bad one, says what it saw, and has the command for what can be changed."""
    row = check(host(**changes))
    assert (row.name, row.state) == (check.__name__, state)
    assert seen in row.seen
    assert fix in row.fix
    assert bool(fix) == bool(row.fix)


def test_every_check_is_in_the_table() -> None:
    """No check is without a host that it finds well or does not concern, and one that it complains of."""
    for check in CHECKS:
        states = {state for one, _, state, _, _ in TABLE if one is check}
        assert states & {"ok", "not applicable"}, check.__name__
        assert states & {"warn", "fail"}, check.__name__


def test_a_host_of_which_nothing_is_known() -> None:
    """Without one file that can be read every check still has an answer."""
    for check in CHECKS:
        for platform in ("linux", "darwin", "win32"):
            assert check(HostView(platform=platform, native=BROKEN)).seen


@pytest.mark.parametrize("fix", [row[4] for row in TABLE if row[4]])
def test_a_fix_is_one_line_of_shell(fix: str) -> None:
    """Every command can be copied as it is: one line, which a shell can parse."""
    rows = [check(host(**changes)) for check, changes, *_, wanted in TABLE if wanted == fix]
    for row in rows:
        assert "\n" not in row.fix
        subprocess.run(["sh", "-n", "-c", row.fix], check=True, timeout=30)


def test_the_profile_that_is_copied(tmp_path: Path) -> None:
    """The command for AppArmor writes a whole profile for the helper's own path, also one with spaces and quotes."""
    helper = "/home/o'neil/my env/isandbox-helper"
    command = namespaces.apparmor_fix(helper)
    written = command.partition(" | sudo tee ")[0]
    text = subprocess.run(["sh", "-c", written], check=True, capture_output=True, timeout=30).stdout.decode()
    assert text.splitlines() == [
        "abi <abi/4.0>,",
        "include <tunables/global>",
        f'profile isandbox-helper "{helper}" flags=(unconfined) {{',
        "  userns,",
        "}",
    ]
    assert shlex.split(command)[-3:] == ["apparmor_parser", "-r", "/etc/apparmor.d/isandbox-helper"]


@pytest.mark.parametrize("name", ['a" flags=(unconfined) {', "*", "@{HOME}", "a\nb", "a\\x22"])
def test_no_profile_for_what_would_be_more_than_a_path(name: str) -> None:
    """A directory whose name ends the profile's text, or is a pattern of AppArmor, gets no command to copy."""
    assert namespaces.apparmor_fix(f"/opt/{name}/isandbox-helper") == ""


@pytest.mark.parametrize("runtime", ["/run/a b", "/run/a;true", "/run/$(echo x)"])
def test_a_directory_of_any_name_is_one_word(runtime: str) -> None:
    """The command to copy sets one variable, whatever the directory of the user's sockets is called."""
    view = host(env={"XDG_RUNTIME_DIR": runtime}, present=frozenset({f"{runtime}/docker.sock"}))
    line = containers.docker_socket(view).fix + '; printf %s "$DOCKER_HOST"'
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == f"unix://{runtime}/docker.sock"


def test_security_modules_of_any_text() -> None:
    """What stands where the kernel lists its modules becomes part of a command only if it is such a list."""
    view = host(native=BROKEN, layers={}, files={LSM: "yama'; reboot; '"})
    assert (namespaces.landlock(view).state, namespaces.landlock(view).fix) == ("fail", "")


def test_numbers_of_thousands_of_digits() -> None:
    """A file of a container whose numbers Python refuses to read is one without a number."""
    many = "9" * 5000
    files = dict.fromkeys((MOST, UNCLONE, APPARMOR, "/sys/fs/selinux/enforce"), many)
    files |= dict.fromkeys(("/etc/subuid", "/etc/subgid"), f"bert:{many}:1\nbert:1:{many}\nbert:1\n")
    for check in CHECKS:
        assert check(host(native=BROKEN, files=files)).seen


def test_what_is_no_file_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container that somebody else has made /etc/os-release may be a pipe without a writer."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("ID=alpine")
    monkeypatch.setattr(read, "FILES", (str(tmp_path / "pipe"), str(tmp_path / "file")))
    assert dict(read_host(None, {}).files) == {str(tmp_path / "file"): "ID=alpine"}


def test_the_mount_of_a_path() -> None:
    """The deepest mount above a path counts, and the last one where several lie on each other; a like name is another place."""
    text = "1 1 0:1 / / rw - ext4 a rw\n2 1 0:2 / /opt rw - ext4 b rw\n3 2 0:3 / /opt ro - ext4 c rw,noexec\n4 1 0:4 / /my\\040dir rw - xfs d rw\nbroken"
    view = HostView(files={"/proc/self/mountinfo": text})
    found = view.mount_of("/opt/x")
    assert found is not None
    assert found.options == {"ro", "rw", "noexec"}
    assert [mount.kind for path in ("/optional", "/my dir/x") if (mount := view.mount_of(path))] == ["ext4", "xfs"]


def test_the_real_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read of this machine is a view that every check takes; only the variables that are looked at are in it."""
    view = read_host(None, {"PATH": "/nowhere", "SECRET": "x", "DOCKER_HOST": "unix:///z"})
    assert dict(view.env) == {"DOCKER_HOST": "unix:///z"}
    assert "SECRET" not in repr(view)
    assert view.native == "it was not asked"
    assert all(check(view).seen for check in CHECKS)
