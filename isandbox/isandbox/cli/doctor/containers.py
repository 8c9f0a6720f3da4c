"""Checks of what this machine may be inside of: a container, WSL; and which container engine can be reached."""

from __future__ import annotations

import shlex

from isandbox.cli.doctor.view import HostView, Row

_PODMAN = {"systempaths=unconfined": "unmask=ALL"}
_ENGINES = ("docker", "podman", "containerd", "lxc", "kubepods")


def container(view: HostView) -> Row:
    """In a container: whether sandboxes start, else which of the engine's walls stand in the way, as far as they can be seen."""
    engine = container_engine(view)
    if engine is None:
        return Row("container", "not applicable", "no sign of a container")
    if view.native is None:
        return Row("container", "ok", f"{engine}; sandboxes start in it")
    walls = _walls(view)
    if not walls:
        return Row("container", "warn", f"{engine}; what keeps sandboxes from starting is none of its walls that can be seen")
    program = "podman" if engine == "podman" else "docker"
    options = [f"--security-opt {_PODMAN.get(option, option) if program == 'podman' else option}" for _, option in walls]
    seen = f"{engine}, which forbids what a sandbox needs: {', '.join(wall for wall, _ in walls)}"
    return Row("container", "fail", seen, " ".join([program, "run", *options, "IMAGE"]))


def container_engine(view: HostView) -> str | None:
    """By the files that engines put there, the variable that systemd reads, and the names of control groups."""
    if "/run/.containerenv" in view.present:
        return "podman"
    if "/.dockerenv" in view.present:
        return "docker"
    if named := view.env.get("container"):
        return named
    groups = view.files.get("/proc/1/cgroup", "")
    return next((engine for engine in _ENGINES if f"/{engine}" in groups), None)


def _walls(view: HostView) -> list[tuple[str, str]]:
    found = []
    if "\nSeccomp:\t2\n" in f"\n{view.files.get('/proc/self/status', '')}":
        found.append(("its filter of system calls", "seccomp=unconfined"))
    if any(mount.point.startswith("/proc/") and mount.kind != "binfmt_misc" for mount in view.mounts()):
        found.append(("parts of /proc are masked", "systempaths=unconfined"))
    label = view.files.get("/proc/self/attr/current", "").strip("\0\n ")
    if label.endswith("(enforce)"):
        found.append((f"the AppArmor profile {label.split(' ')[0]}", "apparmor=unconfined"))
    elif ":container_t:" in label:
        found.append(("the SELinux domain container_t", "label=disable"))
    return found


def docker_socket(view: HostView) -> Row:
    """Which engine a client would reach: a rootless one has its socket in the user's own directory, where few look."""
    if chosen := view.env.get("DOCKER_HOST"):
        return Row("docker_socket", "ok", f"DOCKER_HOST is {chosen}")
    runtime = view.env.get("XDG_RUNTIME_DIR") or f"/run/user/{view.uid}"
    rootless = f"{runtime}/docker.sock"
    system = "/run/docker.sock" in view.present or "/var/run/docker.sock" in view.present
    if rootless in view.present:
        fix = f"export DOCKER_HOST={shlex.quote(f'unix://{rootless}')}"
        beside = "; clients take the system's, which is there too" if system else ""
        return Row("docker_socket", "warn", f"rootless engine at {rootless}, and DOCKER_HOST is not set{beside}", fix)
    if system:
        return Row(
            "docker_socket", "ok", "/run/docker.sock: whoever may use it is root on this machine; sandboxes cannot see it"
        )
    return Row("docker_socket", "not applicable", "no container engine listens")


def wsl(view: HostView) -> Row:
    """WSL1 is no Linux kernel; WSL2 is one, which Windows updates."""
    release = view.release
    if "microsoft" not in release.lower():
        return Row("wsl", "not applicable", "not WSL")
    if "Microsoft" in release and "WSL2" not in release:
        return Row("wsl", "fail", f"WSL1 ({release}): no Linux kernel, no namespaces", "wsl.exe --set-version DISTRIBUTION 2")
    if view.kernel < (6, 7):
        return Row(
            "wsl", "warn", f"WSL2 ({release}): Landlock of an older kernel, without its later rules", "wsl.exe --update"
        )
    return Row("wsl", "ok", f"WSL2 ({release})")


def selinux(view: HostView) -> Row:
    """Enforcing is well for a user who is not confined, the default."""
    enforcing = view.number("/sys/fs/selinux/enforce")
    if enforcing is None:
        return Row("selinux", "not applicable", "SELinux is not on")
    domain = view.files.get("/proc/self/attr/current", "").strip("\0\n ") or "an unknown domain"
    if enforcing == 0:
        return Row("selinux", "ok", f"permissive, {domain}")
    if view.native is None or ":unconfined_t:" in domain:
        return Row("selinux", "ok", f"enforcing, {domain}" + ("; sandboxes start" if view.native is None else ""))
    fix = (
        "sudo ausearch -m avc,user_avc -ts recent -c isandbox-helper --raw | audit2allow -M isandbox_local && "
        "sudo semodule -i isandbox_local.pp"
    )
    return Row("selinux", "fail", f"enforcing, {domain}: it may deny user_namespace create; read isandbox_local.te first", fix)
