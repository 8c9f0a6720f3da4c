"""The checks of a host, in the order in which they are told. Each is a pure function of a `HostView`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isandbox.cli.doctor import containers, machine, namespaces

if TYPE_CHECKING:
    from collections.abc import Callable

    from isandbox.cli.doctor.view import HostView, Row

CHECKS: tuple[Callable[[HostView], Row], ...] = (
    namespaces.kernel,
    machine.helper,
    machine.executable,
    namespaces.user_namespaces,
    namespaces.debian_userns,
    namespaces.apparmor_userns,
    containers.selinux,
    containers.container,
    containers.wsl,
    namespaces.landlock,
    namespaces.subordinate_ids,
    machine.cgroups,
    machine.proc,
    machine.overlayfs,
    containers.docker_socket,
)
