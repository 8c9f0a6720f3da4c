"""What of the host a probe tries to reach: sockets that count who came."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Literal

SocketKind = Literal["stream", "datagram", "packets"]
_KINDS = {"stream": socket.SOCK_STREAM, "datagram": socket.SOCK_DGRAM, "packets": socket.SOCK_SEQPACKET}
_MOST = 256


class Listener:
    """A socket of the host that answers nobody. ``address``: a path, a name that begins with a NUL for the abstract kind, or
    ``("127.0.0.1", 0)`` for a port of the loopback, whose number is in `address` then. Anybody may connect to a path.

    No thread: who comes waits in the kernel's queue until `arrivals` looks.
    """

    def __init__(self, address: str | tuple[str, int], kind: SocketKind = "stream") -> None:
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self._socket = socket.socket(family, _KINDS[kind])
        self._accepts = kind != "datagram"
        self._arrived = 0
        try:
            self._socket.bind(address)
            if isinstance(address, str) and not address.startswith("\0"):
                os.chmod(address, 0o777)  # noqa: S103 - only the sandbox may be what keeps a visitor away
            if self._accepts:
                self._socket.listen(_MOST)
            self._socket.setblocking(False)
        except OSError:
            self._socket.close()
            raise
        self.address = address if isinstance(address, str) else self._socket.getsockname()

    def fileno(self) -> int:
        return self._socket.fileno()

    def arrivals(self) -> int:
        """Connections or datagrams since it was made."""
        with contextlib.suppress(BlockingIOError):
            while self._arrived < _MOST:
                if self._accepts:
                    self._socket.accept()[0].close()
                else:
                    self._socket.recv(1)
                self._arrived += 1
        return self._arrived

    def close(self) -> None:
        self._socket.close()
