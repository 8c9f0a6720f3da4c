"""A plain subprocess. No isolation."""

from isandbox_backends.local.backend import LocalBackend

__all__ = ["LocalBackend"]
