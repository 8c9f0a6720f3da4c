"""Linux namespaces, mounts, Landlock, seccomp and resource limits; no daemon, no root needed."""

from isandbox_backends.seccomp.backend import SeccompBackend

__all__ = ["SeccompBackend"]
