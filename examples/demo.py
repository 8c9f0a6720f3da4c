"""What unreviewed code can and cannot do in a sandbox; run it with ``make demo``.

It computes something, then tries what it has no business doing, and prints what happened. Exit code 0 when the computation
is right and everything else was refused.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Callable

PRIMES_BELOW_A_MILLION = 78_498


def count_primes(limit: int) -> int:
    sieve = bytearray([1]) * limit
    sieve[:2] = b"\0\0"
    for number in range(2, int(limit**0.5) + 1):
        if sieve[number]:
            sieve[number * number :: number] = bytes(len(range(number * number, limit, number)))
    return sum(sieve)


def attempt(action: Callable[[], str]) -> tuple[bool, str]:
    """Whether it was refused, and how."""
    try:
        return False, action()
    except socket.gaierror as error:
        return True, f"refused: {error.strerror}"
    except OSError as error:
        return True, f"refused: {errno.errorcode.get(error.errno or 0, 'no such thing')} ({error.strerror or error})"


def list_keys() -> str:
    """Private keys of whoever started this, wherever a home directory may be."""
    seen = []
    refusal: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    homes = [os.path.expanduser("~"), "/root"]
    try:
        homes += [os.path.join("/home", name) for name in os.listdir("/home")]
    except OSError:
        homes.append("/home")
    for home in dict.fromkeys(homes):
        try:
            seen.append(f"{home}/.ssh: {len(os.listdir(os.path.join(home, '.ssh')))} files")
        except OSError as error:
            refusal = error
    if not seen:
        raise refusal
    return "read " + ", ".join(seen)


def connect() -> str:
    with socket.create_connection(("127.0.0.1", 22), timeout=3):
        return "connected"


def look_up() -> str:
    return f"found {socket.getaddrinfo('example.com', 443)[0][4][0]}"


def write_workspace() -> str:
    path = os.path.join(os.getcwd(), f".isandbox-demo-{os.getpid()}")
    with open(path, "x") as file:
        file.write("was here\n")
    os.unlink(path)
    return f"wrote {path}"


def main() -> int:
    found = count_primes(1_000_000)
    right = found == PRIMES_BELOW_A_MILLION
    rows = [("count the primes below 1,000,000", f"{found:,}" + ("" if right else " (wrong)"))]
    forbidden = {
        "read private keys in ~/.ssh, /root, /home": list_keys,
        "open a TCP connection to 127.0.0.1:22": connect,
        "look up example.com": look_up,
        "write into the workspace": write_workspace,
    }
    refused = []
    for what, action in forbidden.items():
        was_refused, happened = attempt(action)
        refused.append(was_refused)
        rows.append((what, happened if was_refused else f"ALLOWED: {happened}"))
    width = max(len(what) for what, _ in rows)
    print(f"{'what was tried':<{width}}  what happened")
    print(f"{'-' * width}  {'-' * 40}")
    for what, happened in rows:
        print(f"{what:<{width}}  {happened}")
    return 0 if right and all(refused) else 1


if __name__ == "__main__":
    sys.exit(main())
