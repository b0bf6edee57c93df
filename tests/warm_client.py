"""What `warm_python` starts, as `warm_client.py SOCKET WORDS...`: hands the words over.

It imports next to nothing: that is what it is for.
"""

import _socket
import array
import os
import sys


def main() -> int:
    """Send words, folder and environment with the three streams; the exit code that comes back."""
    variables = (f"{name}={value}" for name, value in os.environ.items())
    texts = [os.getcwd(), str(len(sys.argv) - 2), *sys.argv[2:], *variables]  # noqa: PTH109
    content = b"\0".join(map(os.fsencode, texts))
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect(sys.argv[1])
    streams = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
    connection.sendmsg([len(content).to_bytes(8, "big")], streams)
    connection.sendall(content)
    code = int(connection.recv(16) or b"1")
    if code < 0:
        os.kill(os.getpid(), -code)
    return code


sys.exit(main())
