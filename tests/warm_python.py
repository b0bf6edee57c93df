"""A Python for tests that start hundreds of processes: Cannery is imported once, then forked.

`warm_python()` is a program that takes the words that Python does. Where they run a command of
Cannery (`-m cannery compile ...`, `run_cannery.py compile ...`) it hands them, with its folder,
environment, streams and end, to a server, which forks a process for them. How Cannery starts from
nothing is seen by the tests of the examples, of the wheel, of `run_cannery.py` and others.
"""

from __future__ import annotations

import atexit
import importlib
import os
import pkgutil
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NoReturn

_CLIENT = Path(__file__).with_name("warm_client.py")

#: Options (`--probe`) and compilers (of `capture_compiler.py`) are left to a Python of their own.
_PROGRAM = """\
#!/bin/sh
case "$2" in
  [a-z]*) exec {client} "$@" ;;
  *) exec {python} "$@" ;;
esac
"""


@cache
def warm_python() -> Path:
    """The program; `stop` ends the server."""
    return _start()[1]


@cache
def _start() -> tuple[subprocess.Popen[bytes], Path]:
    folder = Path(tempfile.mkdtemp(prefix="warm-", dir="/tmp"))
    where = str(folder / "socket")
    server = subprocess.Popen(
        [sys.executable, __file__, where], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdout is not None
    if not server.stdout.readline():
        raise RuntimeError("no server of warm_python")
    client = shlex.join([sys.executable, "-SEs", str(_CLIENT), where])
    program = folder / "python"
    program.write_text(_PROGRAM.format(client=client, python=shlex.quote(sys.executable)))
    program.chmod(0o755)
    return server, program


def stop() -> None:
    """End the server, if there is one."""
    if not _start.cache_info().currsize:
        return
    _start()[0].communicate()


def serve(where: str) -> None:
    """Fork for every connection, until standard input ends, be it that who began this is killed."""
    _import_all()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(where)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [], 1.0)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if sys.stdin in ready:
                shutil.rmtree(Path(where).parent)
                return
            if listener in ready:
                connection, _ = listener.accept()
                if not os.fork():
                    listener.close()
                    _answer(connection)
                connection.close()


def _import_all() -> None:
    """Every module of Cannery, and every template of C; nothing is asked of the machine."""
    sys.path[0] = str(Path(__file__).resolve().parents[1] / "generator")
    import cannery
    from cannery.ctext.environment import environment

    for module in pkgutil.walk_packages(cannery.__path__, "cannery."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in environment().list_templates(extensions=["j2"]):
        if not name.endswith(".html.j2"):  # a page has an environment of its own
            environment().get_template(name)


def _answer(connection: socket.socket) -> NoReturn:
    """In a process of its own: run what is asked in another, and say how that ended.

    It is killed if who asks is.
    """
    head, streams, _, _ = socket.recv_fds(connection, 8, 3)
    left = int.from_bytes(head, "big")
    content = b""
    while len(content) < left:
        content += connection.recv(left - len(content))
    child = os.fork()
    if not child:
        connection.close()
        _run([os.fsdecode(text) for text in content.split(b"\0")], streams)
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(child)
    if ended not in select.select([ended, connection], [], [])[0]:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(OSError):
        connection.sendall(str(code).encode())
    os._exit(0)


def _run(texts: list[str], streams: list[int]) -> NoReturn:
    """In a process of its own: as Python runs a script or a module, with the exit code."""
    folder, count, *rest = texts
    words, variables = rest[: int(count)], rest[int(count) :]
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, closefd=False) for number, mode in enumerate("rww")
    )
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variable.split("=", 1) for variable in variables)
    code: object = None
    try:
        _execute(words)
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def _execute(words: list[str]) -> None:
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path[0] = str(Path(words[0]).resolve().parent)
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    serve(sys.argv[1])
