"""What the benches share: servers as processes, the machine's accounting of them, and the instances that they hold."""
import contextlib
import gzip
import http.client
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
EUREKAD = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "eurekad"


def machine():
    model = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    load = os.getloadavg()[0]
    return (f"{os.cpu_count()} x {model.group(1) if model else 'unknown CPU'}, load {load:.1f}, "
            f"commit {commit.stdout.strip() or 'unknown'}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def process_tree(pid):
    yield pid
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                yield from process_tree(int(child))


def cpu_seconds(pid):
    """Of all threads and children, since their start."""
    total = 0
    for p in process_tree(pid):
        fields = pathlib.Path(f"/proc/{p}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def resident_mb(pid):
    return sum(int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{p}/status").read_text()).group(1))
               for p in process_tree(pid)) / 1024


def get(port, path, headers=(), timeout=60):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        c.request("GET", path, headers=dict(headers))
        r = c.getresponse()
        return r.status, r.read()
    finally:
        c.close()


class Server:
    """A server under measurement. `command` may name {port} and {dir}."""

    def __init__(self, command, directory=None):
        self.command, self.port = command, free_port()
        self.keeps = directory is not None
        self.dir = directory or tempfile.mkdtemp(prefix="eurekad-bench-")
        self.log = open(pathlib.Path(self.dir).with_suffix(".log"), "ab")
        self.process = None

    def start(self):
        """Starts it and waits for the first answer; the seconds that took."""
        argv = shlex.split(self.command.format(port=self.port, dir=self.dir))
        begin = time.monotonic()
        try:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        except OSError as error:
            sys.exit(f"cannot run {argv[0]}: {error.strerror}; build it first, or name another one (--help)")
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if get(self.port, "/eureka/apps/NOBODY", timeout=5)[0] in (200, 404):
                    return time.monotonic() - begin
            if self.process.poll() is not None or time.monotonic() - begin > 180:
                said = pathlib.Path(self.log.name).read_text(errors="replace").splitlines()[-5:]
                sys.exit("\n  ".join([f"the server did not start: {shlex.join(argv)}", *said]))
            time.sleep(0.005)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        self.log.close()
        if not self.keeps:
            shutil.rmtree(self.dir, ignore_errors=True)
            os.unlink(self.log.name)


def instance(k, apps, dirty):
    """The k-th instance; load.lua makes the same."""
    app, host = f"service-{k % apps:04d}", f"host-{k:06d}.example.internal"
    return {
        "instanceId": f"{host}:{app}:8080", "hostName": host, "app": app.upper(),
        "ipAddr": f"10.{k // 65536 % 256}.{k // 256 % 256}.{k % 256}", "status": "UP", "overriddenStatus": "UNKNOWN",
        "port": {"$": 8080, "@enabled": "true"}, "securePort": {"$": 443, "@enabled": "false"}, "countryId": 1,
        "dataCenterInfo": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
        "leaseInfo": {"renewalIntervalInSecs": 30, "durationInSecs": 90},
        "metadata": {"management.port": "8081", "zone": f"zone-{k % 3}", "version": f"1.4.{k % 40}",
                     "team": "payments", "build": f"{k * 2654435761 % 2 ** 32:08x}"},
        "homePageUrl": f"http://{host}:8080/", "statusPageUrl": f"http://{host}:8081/actuator/info",
        "healthCheckUrl": f"http://{host}:8081/actuator/health", "vipAddress": app, "secureVipAddress": app,
        "isCoordinatingDiscoveryServer": "false", "lastUpdatedTimestamp": str(dirty),
        "lastDirtyTimestamp": str(dirty)}


def load(port, count, apps, dirty):
    """Registers `count` instances through the peers' batches, 250 at a time; the seconds that took."""
    begin, c = time.monotonic(), http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    for start in range(0, count, 250):
        items = []
        for k in range(start, min(start + 250, count)):
            i = instance(k, apps, dirty)
            items.append({"appName": i["app"], "id": i["instanceId"], "lastDirtyTimestamp": dirty, "status": "UP",
                          "instanceInfo": i, "action": "Register"})
        c.request("POST", "/eureka/peerreplication/batch/", json.dumps({"replicationList": items}),
                  {"Content-Type": "application/json", "Accept": "application/json"})
        r = c.getresponse()
        body = r.read()
        if r.status != 200 or body.count(b"200") < len(items):
            sys.exit(f"a batch of registrations was answered {r.status}: {body[:200]!r}")
        if start % 10000 == 0 and sys.stderr.isatty():
            print(f"\r{start} of {count} registered", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print("\r", end="", file=sys.stderr)
    c.close()
    return time.monotonic() - begin


def registry(port):
    """The whole registry, compressed, as Java clients fetch it: when it had come, its length, and its hash code."""
    status, body = get(port, "/eureka/apps/", {"Accept": "application/json", "Accept-Encoding": "gzip"})
    came = time.monotonic()
    found = re.search(rb'"apps__hashcode":"([^"]*)"', gzip.decompress(body)) if status == 200 else None
    return came, len(body), found.group(1).decode() if found else f"status {status}"
