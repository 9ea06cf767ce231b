#!/usr/bin/env python3
"""What replication costs and how late it is: two eurekad nodes beside two Java nodes, one pair after the other.

usage: replication.py [-n 10000] [-s 60] [--changes 200] [--dead-peer 600] [--kinds eurekad,java] [--svg FILE]

Each pair holds N instances; every instance is renewed at the first node once in 30 s for as long as the pair lives.
 1. Idle: CPU time of both nodes without renewals, for a sixth of -s.
 2. Renewals alone, for -s: bytes between the nodes (both directions of both links, heads included, counted by a relay in
    a process of its own) and CPU time of each node, both per renewal.
 3. Changes while renewals go on: from the acknowledgement of a registration at the first node until the second one
    answers a read of it with 200. Looked for every 2 ms, at both kinds in the same way.
 4. The second node is killed and stays dead for --dead-peer seconds (0 leaves this out), under renewals and --rate
    changes a second: memory of the first node, and of eurekad its log, as a table and a picture; then how long after the
    second node's start both are equal again. The Java server forgets its registry: there it is until the second node
    has all instances again.

Figures are of this machine while it did this; the ratios between the pairs are what counts. The Java server is built by
`mvn -q -B -DskipTests package` in tests/peer/eureka-server, or by `tests/cluster/run.py --prepare`; --jar names it.
"""
import argparse
import contextlib
import http.client
import json
import multiprocessing
import pathlib
import socket
import sys
import threading
import time
import urllib.request

import common

BEAT_EVERY_S = 30
LOOK_S = 0.002
# Of no node: the Java server tells itself from its peer by the host name alone.
RELAY_HOST = "127.0.0.3"


# ---- counting what goes between the nodes ---------------------------------------------------------------------------
def pump(source, sink, counter):
    """Passes bytes on until one side ends, and counts them."""
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            with counter.get_lock():
                counter.value += len(data)
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def serve_relay(port, target, counter):
    listener = socket.create_server((RELAY_HOST, port), backlog=64)
    while True:
        outside, _ = listener.accept()
        try:
            inside = socket.create_connection(("127.0.0.1", target), timeout=5)
        except OSError:
            outside.close()
            continue
        inside.settimeout(None)
        for sock in (outside, inside):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for pair in ((outside, inside), (inside, outside)):
            threading.Thread(target=pump, args=(*pair, counter), daemon=True).start()


class Relay:
    """Listens for one node and passes what it says on to the other; `bytes` counts both directions."""

    def __init__(self):
        self.port = common.free_port()
        self.counter = multiprocessing.Value("Q", 0)
        self.process = None

    def start(self, target):
        args = (self.port, target, self.counter)
        self.process = multiprocessing.Process(target=serve_relay, args=args, daemon=True)
        self.process.start()

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.join()

    @property
    def bytes(self):
        return self.counter.value


# ---- clients --------------------------------------------------------------------------------------------------------
class Beater(threading.Thread):
    """Renews every instance once in 30 s, spread evenly, over one connection."""

    TICK_S = 0.1

    def __init__(self, port, count, apps, dirty):
        super().__init__(daemon=True)
        self.port, self.ended = port, threading.Event()
        self.requests = []
        for k in range(count):
            i = common.instance(k, apps, dirty)
            self.requests.append((f"PUT /eureka/apps/{i['app']}/{i['instanceId']}?status=UP&lastDirtyTimestamp={dirty} "
                                  "HTTP/1.1\r\nHost: bench\r\nAccept: application/json\r\nContent-Length: 0\r\n\r\n").encode())
        self.beats = self.bad = 0

    def run(self):
        begin, due = time.monotonic(), 0.0
        place = 0
        rate = len(self.requests) / BEAT_EVERY_S
        while not self.ended.is_set():
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=30) as sock, sock.makefile("rb") as read:
                    while not self.ended.is_set():
                        due = (time.monotonic() - begin) * rate
                        # What a stall has left behind is not caught up with all at once.
                        count = min(int(due - place), 10 * int(rate * self.TICK_S + 1))
                        place = max(place, int(due) - count)
                        part = [self.requests[(place + n) % len(self.requests)] for n in range(count)]
                        sock.sendall(b"".join(part))
                        for _ in part:
                            self.bad += read_status(read) != 200
                        place += count
                        self.beats += count
                        self.ended.wait(self.TICK_S)
            except (OSError, ValueError):
                self.bad += 1
                self.ended.wait(1)

    def end(self):
        self.ended.set()
        self.join()


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


class Client:
    """Requests over a connection that is kept."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method, path, body=None):
        headers = {"Accept": "application/json"} | ({"Content-Type": "application/json"} if body else {})
        self.connection.request(method, path, json.dumps(body) if body else None, headers)
        answer = self.connection.getresponse()
        answer.read()
        return answer.status

    def register(self, one):
        status = self.ask("POST", f"/eureka/apps/{one['app']}", {"instance": one})
        if status != 204:
            sys.exit(f"a registration was answered {status}")


# ---- a pair ---------------------------------------------------------------------------------------------------------
COMMON_ARGS = ("--server.port={port} --eureka.instance.hostname=%s --eureka.client.service-url.defaultZone=%s "
               "--eureka.client.register-with-eureka=false --eureka.client.fetch-registry=false "
               "--eureka.server.peer-node-connect-timeout-ms=1000 --eureka.server.peer-node-read-timeout-ms=2000 "
               "--logging.level.root=warn")


class Pair:
    """Two nodes of one kind, each of which reaches the other over a relay."""

    def __init__(self, kind, o):
        self.kind, self.o = kind, o
        self.relays = [Relay(), Relay()]
        program = {"eurekad": f"{o.server} --data-dir={{dir}}",
                   # Tomcat closes a connection after 100 requests; clients that keep theirs are what is measured.
                   "java": f"java -Xmx2g -jar {o.jar} --server.tomcat.max-keep-alive-requests=-1"}[kind]
        self.nodes = []
        for host, relay in zip(("127.0.0.1", "127.0.0.2"), self.relays):
            url = f"http://{RELAY_HOST}:{relay.port}/eureka/"
            self.nodes.append(common.Server(f"{program} {COMMON_ARGS % (host, url)}"))
        self.first, self.second = self.nodes

    def __enter__(self):
        self.relays[0].start(self.second.port)
        self.relays[1].start(self.first.port)
        try:
            for node in self.nodes:
                node.start()
        except SystemExit:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc):
        for node in self.nodes:
            node.__exit__(*exc)
        for relay in self.relays:
            relay.stop()

    def cpu(self):
        return [common.cpu_seconds(node.process.pid) for node in self.nodes]

    def bytes(self):
        return sum(relay.bytes for relay in self.relays)

    def settle(self):
        """Waits until both nodes have everything."""
        wait_until(180, lambda: self.count(self.first) == self.count(self.second) >= self.o.n, "the nodes are equal")
        time.sleep(3)

    @staticmethod
    def count(node):
        """Instances that a node has, by its hash code."""
        hash_code = common.registry(node.port)[2]
        return sum(int(part) for part in hash_code.split("_") if part.isdigit()) if "_" in hash_code else -1


def wait_until(seconds, probe, what):
    """The seconds that it took until `probe` gave something true."""
    begin = time.monotonic()
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if probe():
                return time.monotonic() - begin
        if time.monotonic() - begin > seconds:
            sys.exit(f"not within {seconds} s: {what}")
        time.sleep(0.05)


# ---- measurements ---------------------------------------------------------------------------------------------------
def window(pair, seconds, beater=None):
    """What a stretch of time costs: bytes between the nodes, CPU seconds of each, renewals."""
    bytes_before, cpu_before, beats_before = pair.bytes(), pair.cpu(), beater.beats if beater else 0
    begin = time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - begin
    cpu = [after - before for before, after in zip(cpu_before, pair.cpu())]
    return {"s": took, "bytes": pair.bytes() - bytes_before, "cpu": cpu,
            "beats": (beater.beats if beater else 0) - beats_before}


def visible(pair, changes, apps):
    """Milliseconds until each of some registrations is seen at the second node."""
    here, there = Client(pair.first.port), Client(pair.second.port)
    late = []
    for k in range(changes):
        one = common.instance(pair.o.n + k, apps, int(time.time() * 1000))
        here.register(one)
        at = time.monotonic()
        while there.ask("GET", f"/eureka/apps/{one['app']}/{one['instanceId']}") != 200:
            if time.monotonic() - at > 60:
                sys.exit("a registration does not arrive at the other node")
            time.sleep(LOOK_S)
        late.append((time.monotonic() - at) * 1000)
        # Nobody renews it: it must not expire later, at another moment on each node.
        here.ask("DELETE", f"/eureka/apps/{one['app']}/{one['instanceId']}")
        # Not in step with any timer of the nodes.
        time.sleep(0.03 + 0.11 * (k % 7) / 7)
    return sorted(late)


def metrics(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


class Changer(threading.Thread):
    """Changes metadata of one instance after another, so many a second: the registry does not grow."""

    def __init__(self, pair, rate, apps):
        super().__init__(daemon=True)
        self.pair, self.rate, self.apps, self.ended, self.made = pair, rate, apps, threading.Event(), 0

    def run(self):
        client = Client(self.pair.first.port)
        begin = time.monotonic()
        while not self.ended.is_set():
            while self.made < (time.monotonic() - begin) * self.rate:
                i = common.instance(self.made * 7919 % self.pair.o.n, self.apps, 0)
                try:
                    client.ask("PUT", f"/eureka/apps/{i['app']}/{i['instanceId']}/metadata?round={self.made}")
                except (OSError, http.client.HTTPException):
                    client = Client(self.pair.first.port)
                self.made += 1
            self.ended.wait(0.05)

    def end(self):
        self.ended.set()
        self.join()


def dead_peer(pair, o, apps):
    """Memory and log of the first node while the second one is dead.

    Every instance is changed once before, so that what each takes for having been changed is there from the beginning.
    """
    client = Client(pair.first.port)
    for k in range(o.n):
        i = common.instance(k, apps, 0)
        client.ask("PUT", f"/eureka/apps/{i['app']}/{i['instanceId']}/metadata?round=first")
    pair.second.kill()
    pair.relays[0].stop()  # so that connections are refused, as where nothing runs
    changer = Changer(pair, o.rate, apps)
    changer.start()
    samples, begin = [], time.monotonic()
    every = max(o.dead_peer / 60, 1)
    while (at := time.monotonic() - begin) <= o.dead_peer:
        sample = {"s": at, "mb": common.resident_mb(pair.first.process.pid), "changes": changer.made}
        if pair.kind == "eurekad":
            m = metrics(pair.first.port)
            sample |= {"log_mb": m["eurekad_log_bytes"] / 2 ** 20, "file_mb": m["eurekad_store_file_bytes"] / 2 ** 20,
                       "lsn": m["eurekad_log_lsn"]}
        samples.append(sample)
        time.sleep(max(0.0, begin + every * len(samples) - time.monotonic()))
    changer.end()
    pair.relays[0].start(pair.second.port)
    started = pair.second.start()

    def is_equal():
        """Metadata is no part of the hash code: of eurekad the peer's lag tells when it has arrived."""
        lag = sum(value for name, value in metrics(pair.first.port).items() if name.startswith("eurekad_peer_lag_records")) \
            if pair.kind == "eurekad" else 0
        return lag == 0 and common.registry(pair.first.port)[2] == common.registry(pair.second.port)[2]

    return samples, started, wait_until(600, is_equal, "the nodes are equal again")


def slope(samples, key):
    """Growth per minute over the second half, by least squares."""
    half = samples[len(samples) // 2:]
    mean_x = sum(s["s"] for s in half) / len(half)
    mean_y = sum(s[key] for s in half) / len(half)
    spread = sum((s["s"] - mean_x) ** 2 for s in half)
    return 60 * sum((s["s"] - mean_x) * (s[key] - mean_y) for s in half) / spread if spread else 0.0


# ---- what is printed ------------------------------------------------------------------------------------------------
def table(kind, samples):
    has_log = "lsn" in samples[0]
    print(f"\n  {kind}: the first node while its peer is dead")
    print("      time   resident    changes" + ("        LSN        log       file" if has_log else ""))
    shown = samples[::max(1, len(samples) // 12)]
    if shown[-1] is not samples[-1]:
        shown.append(samples[-1])
    for s in shown:
        line = f"  {s['s']:6.0f} s  {s['mb']:6.1f} MB  {s['changes']:9}"
        if has_log:
            line += f"  {s['lsn']:9.0f}  {s['log_mb']:6.1f} MB  {s['file_mb']:6.1f} MB"
        print(line)


def picture(samples, key, unit, height=8, width=60):
    """A figure over time in letters; the axis begins at 0, so that flat looks flat."""
    top = max(s[key] for s in samples) * 1.1 or 1
    last = samples[-1]["s"] or 1
    columns = [None] * width
    for s in samples:
        columns[min(width - 1, int(s["s"] / last * (width - 1)))] = s[key]
    known = samples[0][key]
    rows = [[" "] * width for _ in range(height)]
    for x, value in enumerate(columns):
        known = known if value is None else value
        rows[height - 1 - min(height - 1, int(known / top * height))][x] = "*"
    print(f"\n  {unit} over {last:.0f} s")
    for n, row in enumerate(rows):
        print(f"  {top * (height - n) / height:8.{1 if top >= 10 else 2}f} |{''.join(row)}")
    print("         0 +" + "-" * width)


def svg(path, results):
    """The same as a picture for a page: memory of each kind, and eurekad's log."""
    width, height, left = 720, 240, 60
    lines = []
    colors = iter(("#1b6ca8", "#c0392b", "#7f8c8d", "#27ae60"))
    series = [(f"{kind}: resident MB", [(s["s"], s["mb"]) for s in samples]) for kind, samples in results]
    series += [(f"{kind}: log MB", [(s["s"], s["log_mb"]) for s in samples]) for kind, samples in results
               if "log_mb" in samples[0]]
    right = max((x for _, points in series for x, _ in points), default=0) or 1
    top = max((y for _, points in series for _, y in points), default=0) * 1.1 or 1
    for n, (name, points) in enumerate(series):
        color = next(colors)
        drawn = " ".join(f"{left + x / right * (width - left - 10):.1f},{height - 30 - y / top * (height - 50):.1f}"
                         for x, y in points)
        lines.append(f'<polyline fill="none" stroke="{color}" stroke-width="1.5" points="{drawn}"/>')
        lines.append(f'<text x="{left + 10}" y="{18 + 14 * n}" fill="{color}">{name}</text>')
    axis = f'<path d="M{left},10 V{height - 30} H{width - 10}" fill="none" stroke="#333"/>'
    labels = (f'<text x="{left - 8}" y="20" text-anchor="end">{top:.0f}</text>'
              f'<text x="{left - 8}" y="{height - 28}" text-anchor="end">0</text>'
              f'<text x="{width - 10}" y="{height - 12}" text-anchor="end">{right:.0f} s</text>')
    pathlib.Path(path).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">'
        f'{axis}{labels}{"".join(lines)}</svg>\n')
    print(f"\npicture: {path}")


def at_share(values, share):
    return values[min(len(values) - 1, int(len(values) * share))]


def measure(kind, o):
    apps = max(1, o.n // 20)
    dirty = int(time.time() * 1000)
    with Pair(kind, o) as pair:
        for node in pair.nodes:
            common.load(node.port, o.n, apps, dirty)
        pair.settle()
        idle = window(pair, max(2, o.s / 6))
        beater = Beater(pair.first.port, o.n, apps, dirty)
        beater.start()
        time.sleep(min(BEAT_EVERY_S, o.s / 2))  # until the renewals of both nodes are in step
        beats = window(pair, o.s, beater)
        late = visible(pair, o.changes, apps)
        if not beats["beats"]:
            sys.exit(f"{kind}: no renewal was answered")
        idle_cpu = [cpu / idle["s"] for cpu in idle["cpu"]]
        found = {
            "bytes": (beats["bytes"] - idle["bytes"] * beats["s"] / idle["s"]) / beats["beats"],
            "all_bytes": beats["bytes"] / beats["beats"],
            "cpu_us": [1e6 * cpu / beats["beats"] for cpu in beats["cpu"]],
            "p50": at_share(late, 0.5), "p99": at_share(late, 0.99), "max": late[-1],
        }
        print(f"\n{kind}: {beats['beats']} renewals in {beats['s']:.0f} s ({beats['beats'] / beats['s']:.0f}/s), "
              f"{beater.bad} not answered with 200")
        print(f"  between the nodes  {beats['bytes']} bytes, {found['all_bytes']:.1f} per renewal "
              f"({found['bytes']:.1f} above those of {idle['bytes'] / idle['s']:.0f}/s when idle)")
        print(f"  CPU per renewal    {found['cpu_us'][0]:.0f} us at the first node, {found['cpu_us'][1]:.0f} us at the "
              f"second; idle {idle_cpu[0] * 100:.1f} % and {idle_cpu[1] * 100:.1f} % of a core")
        print(f"  seen at the peer   p50 {found['p50']:.1f} ms, p99 {found['p99']:.1f} ms, longest {found['max']:.1f} ms, "
              f"of {len(late)} registrations", flush=True)
        if o.dead_peer:
            samples, started, took = dead_peer(pair, o, apps)
            found |= {"samples": samples, "slope": slope(samples, "mb"), "again": took}
            table(kind, samples)
            picture(samples, "mb", f"resident MB of {kind}")
            if "log_mb" in samples[0]:
                picture(samples, "log_mb", f"log MB of {kind}")
            print(f"\n  resident: {samples[0]['mb']:.1f} MB at first, {samples[-1]['mb']:.1f} MB at last, "
                  f"{found['slope']:+.2f} MB a minute over the second half")
            print(f"  the peer came up within {started:.2f} s of its start; equal {took:.2f} s after that", flush=True)
        beater.end()
        return found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-n", type=int, default=10_000, help="instances (default 10000), twenty to an application")
    p.add_argument("-s", type=float, default=60, help="seconds of renewals that are measured (default 60)")
    p.add_argument("--changes", type=int, default=200, help="registrations looked for at the peer (default 200)")
    p.add_argument("--dead-peer", type=float, default=600, metavar="SECONDS", help="default 600, 0 for none")
    p.add_argument("--rate", type=float, default=20, help="changes a second while the peer is dead (default 20)")
    p.add_argument("--kinds", default="eurekad,java", help="in this order (default eurekad,java)")
    p.add_argument("--svg", help="write the picture of the dead peer to this file too")
    p.add_argument("--server", default=str(common.EUREKAD), help="the eurekad to be measured")
    p.add_argument("--jar", type=pathlib.Path, help="the Java server")
    o = p.parse_args()
    kinds = o.kinds.split(",")
    if set(kinds) - {"eurekad", "java"}:
        p.error("--kinds names eurekad, java, or both")
    places = [common.EUREKAD.parent.parent / "peer" / "eureka-server", common.ROOT / "tests" / "peer" / "eureka-server"]
    o.jar = o.jar or next((jar for place in places if (jar := place / "target" / "eureka-server.jar").is_file()), None)
    if "java" in kinds and not o.jar:
        sys.exit("the Java server is not built: tests/cluster/run.py --prepare")
    print(common.machine())
    found = {kind: measure(kind, o) for kind in kinds}
    if len(kinds) == 2:
        a, b = found["java"], found["eurekad"]
        print(f"\neurekad against java: bytes per renewal 1/{a['all_bytes'] / max(b['all_bytes'], 0.01):.0f}, CPU per renewal "
              f"1/{sum(a['cpu_us']) / max(sum(b['cpu_us']), 0.01):.1f}, seen at the peer p50 {a['p50']:.0f} -> {b['p50']:.1f} ms, "
              f"p99 {a['p99']:.0f} -> {b['p99']:.1f} ms")
    if o.svg and o.dead_peer:
        svg(o.svg, [(kind, figures["samples"]) for kind, figures in found.items()])


if __name__ == "__main__":
    main()
