"""Nodes of a cluster as processes, what clients do to them, and what they answer."""
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error

import harness

APP = "eureka-server"  # the servers' own application: a node counts as available by its instance there
READY_S = 120  # a JVM on a busy machine
_clock = [int(time.time() * 1000)]


class Failed(Exception):
    """What a scenario expected and did not get."""


def expect(ok, what):
    if not ok:
        raise Failed(what)


def wait_for(probe, seconds, what):
    """Polls until the probe gives something true, and returns that."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError, ValueError, KeyError):
            found = probe()
            if found:
                return found
        if time.monotonic() > end:
            raise Failed(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.1)


def dirty_now():
    """A timestamp behind all that were given before."""
    _clock[0] = max(_clock[0] + 1, int(time.time() * 1000))
    return _clock[0]


DATA_CENTERS = {
    "MyOwn": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
    "Netflix": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "Netflix"},
    "Amazon": {"@class": "com.netflix.appinfo.AmazonInfo", "name": "Amazon",
               "metadata": {"instance-id": "i-0", "ami-id": "ami-0", "availability-zone": "us-east-1c",
                            "local-ipv4": "10.0.0.1", "public-hostname": "a.example"}},
}


def instance(app, id_, status="UP", dirty=None, data_center="MyOwn", duration=600, **metadata):
    """A registration as a client writes it, without its root."""
    center = DATA_CENTERS[data_center]
    if data_center == "Amazon":
        center = center | {"metadata": center["metadata"] | {"instance-id": id_}}
    return {
        "instanceId": id_, "app": app.upper(), "hostName": "h.example", "ipAddr": "10.0.0.1", "status": status,
        "overriddenStatus": "UNKNOWN", "port": {"$": 8080, "@enabled": "true"},
        "securePort": {"$": 443, "@enabled": "false"}, "countryId": 1, "dataCenterInfo": center,
        "leaseInfo": {"renewalIntervalInSecs": 30, "durationInSecs": duration},
        "metadata": {k: str(v) for k, v in metadata.items()}, "vipAddress": app.lower(),
        "secureVipAddress": app.lower(), "isCoordinatingDiscoveryServer": "false",
        "lastUpdatedTimestamp": "0", "lastDirtyTimestamp": str(dirty or dirty_now()), "actionType": "ADDED",
    }


class Node:
    """One server as a process. `start` may come again after `kill` or `stop`."""

    def __init__(self, cluster, name, host, port):
        self.cluster, self.name, self.host, self.port = cluster, name, host, port
        self.url, self.base = f"http://{host}:{port}/eureka/", f"http://{host}:{port}/eureka"
        self.log = cluster.logs / f"{name}.log"
        self.log.unlink(missing_ok=True)
        self.peers, self.args, self.proc = [], [], None

    def argv(self):
        raise NotImplementedError

    def own_args(self):
        return [f"--server.port={self.port}", f"--server.address={self.host}",
                f"--eureka.instance.hostname={self.host}", f"--spring.application.name={APP}",
                f"--eureka.client.service-url.defaultZone={','.join(self.peers)}",
                "--eureka.client.register-with-eureka=true", "--eureka.client.fetch-registry=true",
                "--eureka.server.peer-node-connect-timeout-ms=1000", "--eureka.server.peer-node-read-timeout-ms=2000",
                "--eureka.server.use-read-only-response-cache=false", *self.args]

    def start(self):
        """Starts it, and does not wait."""
        with open(self.log, "ab") as out:
            argv = self.argv()
            out.write(f"$ {' '.join(argv)}\n".encode())
            out.flush()
            self.proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        return self

    def ready(self, seconds=READY_S):
        def answers():
            expect(self.proc.poll() is None, f"{self.name} ended with status {self.proc.returncode}")
            return self.ask("apps")[0] == 200

        wait_for(answers, seconds, f"{self.name} serves its registry")
        return self

    def kill(self):
        if self.proc and self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()

    def stop(self):
        self.proc.send_signal(signal.SIGTERM)
        try:
            self.proc.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"{self.name} did not end within 30 s of SIGTERM") from None

    def is_up(self):
        return self.proc is not None and self.proc.poll() is None

    # ---- requests ---------------------------------------------------------------------------------------------------
    def ask(self, path, method="GET", body=None, headers=None, timeout=10):
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Accept": "application/json", "Content-Type": "application/json"} | (headers or {})
        return harness.fetch(f"{self.base}/{path}", method, data, headers, timeout)

    def must(self, path, method, body=None, wanted=(200, 204)):
        status, _ = self.ask(path, method, body)
        expect(status in wanted, f"{method} {path} at {self.name} answers {status}")

    def register(self, one):
        self.must(f"apps/{one['app']}", "POST", {"instance": one})

    def set_status(self, app, id_, status):
        self.must(f"apps/{app}/{id_}/status?value={status}", "PUT")

    def lift(self, app, id_, value=None):
        self.must(f"apps/{app}/{id_}/status" + (f"?value={value}" if value else ""), "DELETE")

    def put_metadata(self, app, id_, key, value):
        self.must(f"apps/{app}/{id_}/metadata?{key}={value}", "PUT")

    def cancel(self, app, id_):
        self.must(f"apps/{app}/{id_}", "DELETE")

    def beat(self, app, id_, dirty):
        return self.ask(f"apps/{app}/{id_}?status=UP&lastDirtyTimestamp={dirty}", "PUT")[0]

    def content(self):
        """What all nodes must agree on: (hash code, {application/id: what counts of it})."""
        status, body = self.ask("apps", timeout=30)
        if status != 200:
            raise OSError(f"{self.name} answers {status}")
        apps = json.loads(body)["applications"]
        found = {}
        for app in apps["application"]:
            for one in app["instance"]:
                found[f"{app['name']}/{one['instanceId']}"] = (
                    one["status"], one["overriddenStatus"], int(one["lastDirtyTimestamp"]),
                    one["dataCenterInfo"]["name"],
                    tuple(sorted((k, v) for k, v in (one.get("metadata") or {}).items() if k != "@class")))
        return apps["apps__hashcode"], found

    def one(self, app, id_):
        return self.content()[1].get(f"{app.upper()}/{id_}")


class Eurekad(Node):
    """A node of ours, on a data directory that outlives it."""

    def __init__(self, cluster, name, host, port):
        super().__init__(cluster, name, host, port)
        self.data_dir = cluster.work / name
        # What a machine without power loses is the business of the store's own tests.
        self.durability = "process"

    def argv(self):
        return [*self.cluster.server, "--data-dir", str(self.data_dir), *self.own_args(),
                f"--eurekad.durability={self.durability}", "--management.endpoint.health.show-details=always"]

    def own(self, path, method="GET"):
        """Asks one of the endpoints beyond the protocol."""
        status, body = harness.fetch(f"http://{self.host}:{self.port}/{path}", method)
        expect(status == 200, f"{method} /{path} at {self.name} answers {status}: {body[:300]}")
        return json.loads(body)

    def empty(self):
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def health(self):
        return json.loads(harness.fetch(f"http://{self.host}:{self.port}/actuator/health")[1])


class Java(Node):
    """The original. It tells itself from its peers by the host name alone.

    Its response cache keeps an answer that was being encoded when a change came until it runs out, three minutes by
    default: the change throws away what is there, not what is under way. A scenario that polls while things change
    meets that in every other run, so its answers run out after a second here.
    """

    def argv(self):
        return ["java", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-jar", str(self.cluster.peer_jar), *self.own_args(),
                "--eureka.server.response-cache-auto-expiration-in-seconds=1",
                "--eureka.client.initial-instance-info-replication-interval-seconds=0",
                "--eureka.client.registry-fetch-interval-seconds=5",
                "--eureka.instance.lease-renewal-interval-in-seconds=5"]

    def available_replicas(self):
        body = self.ask("status", headers={"Accept": "application/xml"})[1].decode()
        return body.split("<available-replicas>")[1].split("</available-replicas>")[0]


class Cluster:
    """Nodes on one machine, and the folder that they live in."""

    def __init__(self, name, options):
        self.server, self.peer_jar, self.client_jar = options.server, options.peer_jar, options.client_jar
        self.logs = options.logs / name
        self.logs.mkdir(parents=True, exist_ok=True)
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="eurekad-cluster-"))
        self.nodes, self.links, self.procs = [], [], []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.kill()
        for proc in self.procs:
            if proc.poll() is None:
                proc.kill()
            proc.wait()
        for link in self.links:
            link.end()
        shutil.rmtree(self.work, ignore_errors=True)

    def add(self, kind, host=None):
        number = len(self.nodes) + 1
        host = host or f"127.0.0.{number}"
        node = kind(self, f"{kind.__name__.lower()}-{number}", host, free_port(host))
        self.nodes.append(node)
        return node

    def eurekads(self, count):
        return [self.add(Eurekad) for _ in range(count)]

    def mesh(self):
        """Everybody has everybody in its list, itself included, as one configuration for all would have it."""
        for node in self.nodes:
            node.peers = [other.url for other in self.nodes]

    def linked(self):
        """Everybody reaches everybody over a link of its own: {(from, to): Link}."""
        from proxy import Link
        links = {}
        for here in self.nodes:
            here.peers = []
            for there in self.nodes:
                if here is not there:
                    link = Link(there.host, free_port(there.host), (there.host, there.port))
                    links[here, there] = link
                    here.peers.append(link.url())
        self.links += links.values()
        return links

    def start(self):
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.ready()
        return self

    def panics(self):
        return [n.name for n in self.nodes if n.log.is_file() and b"panicked at" in n.log.read_bytes()]


def free_port(host):
    """A port that is free on this address too."""
    while True:
        port = harness.free_port()
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
            return port


def equal(nodes, seconds=30, has=(), lacks=(), why="", among=None):
    """Waits until all nodes have the same, with all of `has` ('APP/id') and none of `lacks`; returns it.

    With `among`, only those are looked at: not whether the servers have registered themselves yet.
    """
    last = []

    def content(node):
        hash_code, found = node.content()
        return (hash_code, found) if among is None else ("", {k: v for k, v in found.items() if k in among})

    def same():
        last[:] = [content(node) for node in nodes]
        first = last[0]
        return all(c == first for c in last) and all(k in first[1] for k in has) \
            and not any(k in first[1] for k in lacks) and first

    def difference():
        lines = [f"{why or 'all nodes are equal'}"]
        keys = sorted({k for _, found in last for k in found})
        for node, (hash_code, _) in zip(nodes, last):
            lines.append(f"    {node.name}: {hash_code}")
        for key in [k for k in keys if len({found.get(k) for _, found in last}) > 1][:10]:
            lines += [f"    {key} at {n.name}: {found.get(key)}" for n, (_, found) in zip(nodes, last)]
        lines += [f"    missing: {k}" for k in list(has)[:5] if any(k not in found for _, found in last)]
        lines += [f"    there again: {k}" for k in list(lacks)[:5] if any(k in found for _, found in last)]
        return "\n".join(lines)

    return wait_for(same, seconds, difference)


# ---- many requests --------------------------------------------------------------------------------------------------
def pipelined(node, requests, connections=8, window=100):
    """Statuses of many requests (method, path, body or None), in order, over a few connections."""
    statuses = [None] * len(requests)
    errors = []

    def work(first):
        mine = range(first, len(requests), connections)
        try:
            with socket.create_connection((node.host, node.port), timeout=60) as sock, sock.makefile("rb") as read:
                for start in range(0, len(mine), window):
                    part = mine[start:start + window]
                    sock.sendall(b"".join(encode(node, *requests[i]) for i in part))
                    for i in part:
                        statuses[i] = read_status(read)
        except (OSError, ValueError) as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(min(connections, len(requests)))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise OSError(str(errors[0]))
    return statuses


def encode(node, method, path, body=None):
    data = json.dumps(body).encode() if body is not None else b""
    head = f"{method} /eureka/{path} HTTP/1.1\r\nHost: {node.host}\r\nAccept: application/json\r\n"
    if data:
        head += "Content-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


def read_status(read):
    line = read.readline()
    if not line:
        raise OSError("the connection was closed")
    status, length = int(line.split()[1]), 0
    while (line := read.readline()) not in (b"\r\n", b""):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    read.read(length)
    return status


def register_everywhere(nodes, instances):
    """As peers bring them: at every node, in batches."""
    for node in nodes:
        batches = []
        for start in range(0, len(instances), 250):
            items = [{"appName": i["app"], "id": i["instanceId"], "lastDirtyTimestamp": int(i["lastDirtyTimestamp"]),
                      "status": i["status"], "instanceInfo": i, "action": "Register"}
                     for i in instances[start:start + 250]]
            batches.append(("POST", "peerreplication/batch/", {"replicationList": items}))
        statuses = pipelined(node, batches, connections=2, window=4)
        expect(set(statuses) == {200}, f"batches of registrations at {node.name} answer {set(statuses)}")


def beats(instances):
    return [("PUT", f"apps/{i['app']}/{i['instanceId']}?status={i['status']}&lastDirtyTimestamp={i['lastDirtyTimestamp']}")
            for i in instances]


class Traffic:
    """Clients that beat once a second, each at a node of its own, and go to the next one when that does not answer.

    A client that gets 404 registers again, as clients do; `not_found` counts that.
    """

    def __init__(self, nodes, homes):
        self.nodes, self.homes = nodes, homes  # [(node, instance)]
        self.not_found, self.errors, self.rounds = [], 0, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _run(self):
        while not self._stop.is_set():
            started = time.monotonic()
            for home, one in self.homes:
                self._beat(home, one)
                if self._stop.is_set():
                    return
            self.rounds += 1
            self._stop.wait(max(0.0, 1 - (time.monotonic() - started)))

    def _beat(self, home, one):
        order = [home, *(n for n in self.nodes if n is not home)]
        for node in order:
            try:
                status = node.beat(one["app"], one["instanceId"], one["lastDirtyTimestamp"])
                if status == 404:
                    self.not_found.append((node.name, one["instanceId"]))
                    one["lastDirtyTimestamp"] = str(dirty_now())
                    node.register(one)
                elif status >= 500:
                    continue
                return
            except (OSError, Failed):
                continue
        self.errors += 1

    def after(self, rounds, seconds=60):
        """Waits for so many more rounds."""
        until = self.rounds + rounds
        wait_for(lambda: self.rounds >= until, seconds, "clients beat on")


def shuffled(items, seed):
    items = list(items)
    random.Random(seed).shuffle(items)
    return items
