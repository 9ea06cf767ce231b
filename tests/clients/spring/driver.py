"""Drives a stock Spring Cloud Eureka client through its life, a crash of its server included.

usage: driver.py JAR --server 'COMMAND' [--reference]

The server is started here (`--data-dir DIR --server.port=N` appended), because it is killed and started again on the same
data directory while the client lives. --reference: the server is the Java one, which forgets: then the client must be
seen to register again, which also shows that this driver would notice. Exit status 0 only if every step did what a user
expects. EUREKA_DRIVER_WAIT (seconds, default 75) bounds each wait for the caches of server and client.
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import harness  # noqa: E402  (its folder is only now on the path)

WAIT = float(os.environ.get("EUREKA_DRIVER_WAIT", "75"))
START_S = 120  # a JVM on two busy cores
BEAT_S = 1
APP, ID = "SAMPLE-CLIENT", "localhost:sample-client:{port}"


class Failed(Exception):
    pass


def step(name, ok):
    print(f"{name:68} {'ok' if ok else 'FAILED'}", flush=True)
    if not ok:
        raise Failed(name)


def until(probe, seconds=WAIT):
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError, ValueError, KeyError):  # not up yet, or not there yet
            if probe():
                return True
        if time.monotonic() > end:
            return False
        time.sleep(0.2)


def read_json(url):
    status, body = harness.fetch(url, headers={"Accept": "application/json"})
    return json.loads(body) if status == 200 else None


class Client:
    """The application in a JVM, with every interval at its shortest."""

    def __init__(self, jar, server_base, log):
        self.port, self.log = harness.free_port(), log
        self.id, self.base = ID.format(port=self.port), f"http://127.0.0.1:{self.port}"
        self.proc = subprocess.Popen(
            ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-jar", jar, f"--server.port={self.port}",
             f"--eureka.client.service-url.defaultZone={server_base}/",
             f"--eureka.instance.lease-renewal-interval-in-seconds={BEAT_S}",
             "--eureka.instance.lease-expiration-duration-in-seconds=30",
             "--eureka.client.registry-fetch-interval-seconds=1",
             "--eureka.client.instance-info-replication-interval-seconds=1",
             "--eureka.client.initial-instance-info-replication-interval-seconds=0",
             "--eureka.client.eureka-server-connect-timeout-seconds=2"],
            stdin=subprocess.DEVNULL, stdout=open(log, "wb"), stderr=subprocess.STDOUT)

    def registrations(self):
        """How often the server has taken a registration of this client, by the client's own word."""
        return pathlib.Path(self.log).read_text(errors="replace").count("registration status: 204")

    def discovers(self, service, instance=None):
        found = read_json(f"{self.base}/services") or []
        return service in found and (instance is None or instance in read_json(f"{self.base}/services/{service}"))

    def ask_for(self, status):
        return harness.fetch(
            f"{self.base}/actuator/serviceregistry", "POST", json.dumps({"status": status}).encode(),
            {"Content-Type": "application/json"})[0]

    def end(self):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()


def drive(server, client, reference):
    def entry():
        """This client's instance in a full fetch, as any other client would see it."""
        apps = read_json(f"{server.base}/apps")["applications"]["application"]
        return next((i for a in apps for i in a["instance"] if i["instanceId"] == client.id), None)

    def has_status(status, override=None):
        e = entry()
        return e is not None and e["status"] == status and override in (None, e["overriddenStatus"])

    def lease():
        return read_json(f"{server.base}/apps/{APP}/{client.id}")["instance"]["leaseInfo"]

    def beats(count):
        """Waits for that many heartbeats that the server took."""
        for _ in range(count):
            before = lease()["lastRenewalTimestamp"]
            if not until(lambda: lease()["lastRenewalTimestamp"] > before, WAIT + BEAT_S):  # noqa: B023
                return False
        return True

    step("start: the client is up", until(lambda: client.discovers("nothing") is False, START_S))
    step("register: it is listed UP", until(lambda: has_status("UP")))
    step("register: with the lease it asked for", lease()["durationInSecs"] == 30)
    step("heartbeat: three of them are taken", beats(3))
    step("fetch: the client discovers itself", until(lambda: client.discovers("sample-client", client.id)))

    step("override: POST /actuator/serviceregistry OUT_OF_SERVICE", client.ask_for("OUT_OF_SERVICE") == 200)
    step("override: it is listed OUT_OF_SERVICE", until(lambda: has_status("OUT_OF_SERVICE", "OUT_OF_SERVICE")))
    step("override: heartbeats do not undo it", beats(3) and has_status("OUT_OF_SERVICE", "OUT_OF_SERVICE"))
    step("override: CANCEL_OVERRIDE", client.ask_for("CANCEL_OVERRIDE") == 200)
    step("override: it is listed UP again", until(lambda: has_status("UP", "UNKNOWN")))
    step("fetch: the client discovers itself again", until(lambda: client.discovers("sample-client", client.id)))

    registrations, registered_at = client.registrations(), lease()["registrationTimestamp"]
    step("register: the client's log was read", registrations > 0)
    server.kill()
    server.start()
    if reference:
        step("crash: the client registers again", until(lambda: client.registrations() > registrations))
        step("crash: it is listed UP", until(lambda: has_status("UP")))
    else:
        step("crash: it is listed UP in the first answer after the restart", has_status("UP"))
        step("crash: heartbeats go on", beats(3))
        step("crash: the client did not register again", client.registrations() == registrations)
        step("crash: the lease is the one it had", lease()["registrationTimestamp"] == registered_at)
    step("crash: the client discovers itself", until(lambda: client.discovers("sample-client", client.id)))

    client.proc.send_signal(signal.SIGTERM)
    step("cancel: the client ends on SIGTERM", until(lambda: client.proc.poll() is not None, WAIT + 20))
    step("cancel: GET apps/APP/ID answers 404", harness.fetch(f"{server.base}/apps/{APP}/{client.id}")[0] == 404)
    step("cancel: it is not listed", until(lambda: entry() is None))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("jar")
    p.add_argument("--server", required=True)
    p.add_argument("--server-log", default=os.devnull)
    p.add_argument("--reference", action="store_true")
    o = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="eureka-spring-") as work:
        with harness.Server(o.server, o.server_log) as server:
            client = Client(o.jar, server.base, os.path.join(work, "client.log"))
            try:
                drive(server, client, o.reference)
                wrong = server.stop()
                step(f"server: it ends well{f' ({wrong})' if wrong else ''}", wrong is None)
            except Failed:
                print("the client's log:\n" + harness.tail(client.log, 25))
                return 1
            finally:
                client.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
