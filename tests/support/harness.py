"""What the test programs outside cargo share: where things lie, free ports, and a server that is started and ended.

Python's library only. `tests/all`, `tests/golden/check.py`, `tests/clients/run.py` and drivers that restart their server
import it; it knows nothing of any single test.
"""
import contextlib
import functools
import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Below the ports that the kernel hands to outgoing connections, so that none of those takes one in between.
PORTS = range(18000, 19000)
_ports_given = set()


@functools.cache
def target_dir():
    """Cargo's target directory: all that is built or downloaded goes there, nothing into the source tree."""
    out = subprocess.run(
        ["cargo", "metadata", "--format-version=1", "--no-deps", "--offline"],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    return pathlib.Path(json.loads(out.stdout)["target_directory"])


def log_dir(name):
    """A folder for logs of one kind of test, kept after the run to be looked at."""
    path = target_dir() / "test-logs" / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def free_port():
    """A port of 127.0.0.1 that nothing listens on now, and that this process has not been given before."""
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", port))
            if port not in _ports_given:
                _ports_given.add(port)
                return port
    raise RuntimeError(f"no free port in {PORTS.start}..{PORTS.stop - 1}")


def tail(path, lines=40):
    """The last lines of a file, indented, to be shown beneath a failure."""
    try:
        text = pathlib.Path(path).read_text(errors="replace")
    except OSError as e:
        return f"    ({e})"
    return "\n".join("    " + line for line in text.splitlines()[-lines:])


def run_logged(argv, log, *, timeout, cwd=None, env=None):
    """Runs a command with its output in `log`. Returns its status, or None if it was ended after `timeout` seconds."""
    with open(log, "ab") as out:
        out.write(f"$ {shlex.join(map(str, argv))}\n".encode())
        out.flush()
        try:
            proc = subprocess.Popen(
                list(map(str, argv)), cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True)
        except OSError as e:
            out.write(f"{e}\n".encode())
            return 127
        try:
            return proc.wait(timeout)
        except subprocess.TimeoutExpired:
            out.write(f"ended after {timeout} s without a result\n".encode())
            return None
        finally:
            # whatever the command left running goes with it
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(proc.pid, signal.SIGKILL)
            proc.wait()


class Server:
    """A server under test on a port and a data directory of its own.

    `command` is a command line as in a shell; `--data-dir DIR --server.port=N` and `args` are appended. The directory
    outlives `kill` and `start`, so a test can let a server crash and come back.
    """

    READY_S = 120  # the Java server needs half a minute on a busy machine

    def __init__(self, command, log, args=()):
        self.command, self.log, self.args = shlex.split(command), log, list(args)
        self.port = free_port()
        self.root = f"http://127.0.0.1:{self.port}"
        self.base = self.root + "/eureka"
        self.proc = self.data_dir = None

    def __enter__(self):
        self.data_dir = tempfile.mkdtemp(prefix="eurekad-test-")
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def start(self):
        """Starts it and waits until it answers a read of the registry with 200."""
        argv = self.command + ["--data-dir", self.data_dir, f"--server.port={self.port}"] + self.args
        with open(self.log, "ab") as out:
            out.write(f"$ {shlex.join(argv)}\n".encode())
            out.flush()
            self.proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        end = time.monotonic() + self.READY_S
        while time.monotonic() < end:
            if self.proc.poll() is not None:
                raise RuntimeError(f"the server ended with status {self.proc.returncode} before it answered")
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(self.base + "/apps", timeout=5) as answer:
                    if answer.status == 200:
                        return
            time.sleep(0.05)
        raise RuntimeError(f"the server did not answer within {self.READY_S} s")

    def kill(self):
        """kill -9, as a crash would."""
        if self.proc and self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()

    def stop(self):
        """SIGTERM; returns what was wrong with how the server lived and ended, or None."""
        if self.proc.poll() is not None:
            return f"the server had ended by itself, with status {self.proc.returncode}"
        self.proc.send_signal(signal.SIGTERM)
        try:
            status = self.proc.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
            return "the server did not end within 30 s of SIGTERM"
        if status not in (0, 143, -signal.SIGTERM):  # 143: how a JVM ends on SIGTERM
            return f"the server ended with status {status} on SIGTERM"
        if b"panicked at" in pathlib.Path(self.log).read_bytes():
            return "the server's log has a panic"
        return None


def fetch(url, method="GET", body=None, headers=None, timeout=10):
    """One request: (status, body). A refused connection or a broken answer raises OSError."""
    request = urllib.request.Request(url, method=method, data=body, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()
