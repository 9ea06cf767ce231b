#!/usr/bin/env python3
"""How long a peer waits for the answer to one batch of 250 items, servers side by side.

usage: benches/batch.py [-n 10000] [-b 200] [NAME='COMMAND with {port} and {dir}' ...]

Without servers, eurekad alone, on the durability of its defaults. Spring peers cut a request that is not answered within
200 ms and send it again for ever: the last column says how many batches took longer. The batches go one after the other
over one connection, as a peer sends them, to a registry of N instances; before a kind is measured, a fifth as many
warm the server up. Kinds: heartbeat (nothing changes), register (each replaces an instance), status (each sets an override that
was not set), conflict (each is older than what is there, so the answer holds 250 instances), mixed.

  benches/batch.py "eurekad=target/release/eurekad --data-dir={dir} --server.port={port} --logging.level.root=warn" \\
      "java=java -Xmx2g -jar tests/peer/eureka-server/target/eureka-server.jar --server.port={port} \\
      --eureka.client.register-with-eureka=false --eureka.client.fetch-registry=false"
"""
import argparse
import http.client
import json
import sys
import time

import common

ITEMS = 250
LIMIT_MS = 200
STATUS = {"heartbeat": 200, "register": 200, "status": 200, "conflict": 409}
HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}


def item(action, one, dirty, **more):
    return {"appName": one["app"], "id": one["instanceId"], "lastDirtyTimestamp": dirty, "status": "UP", "action": action,
            **more}


class Batches:
    """Batches of one kind, each of other instances than the last."""

    def __init__(self, n, first_dirty):
        self.n, self.next, self.dirty, self.turn = n, 0, first_dirty, 0
        self.known = [first_dirty] * n

    def of(self, kind):
        items, wanted = [], []
        for place in range(ITEMS):
            k = self.next
            self.next = (self.next + 1) % self.n
            what = list(STATUS)[place % 4] if kind == "mixed" else kind
            items.append(self.one(what, k))
            wanted.append(STATUS[what])
        self.turn += 1
        return json.dumps({"replicationList": items}).encode(), wanted

    def one(self, kind, k):
        if kind == "register":
            self.dirty += 1
            self.known[k] = self.dirty
        one = common.instance(k, max(1, self.n // 20), self.known[k])
        if kind == "register":
            return item("Register", one, self.known[k], instanceInfo=one)
        if kind == "status":
            status = "DOWN" if self.turn // (self.n // ITEMS) % 2 else "OUT_OF_SERVICE"
            return item("StatusUpdate", one, self.known[k]) | {"status": status}
        return item("Heartbeat", one, self.known[k] - (kind == "conflict"), overriddenStatus="UNKNOWN")


def ask(connection, body, wanted):
    begin = time.perf_counter()
    connection.request("POST", "/eureka/peerreplication/batch/", body, HEADERS)
    answer = connection.getresponse()
    text = answer.read()
    took = (time.perf_counter() - begin) * 1000
    statuses = [one["statusCode"] for one in json.loads(text)["responseList"]] if answer.status == 200 else []
    if statuses != wanted:
        sys.exit(f"a batch was answered {answer.status}, its items {statuses[:4]} instead of {wanted[:4]}: {text[:200]!r}")
    return took


def measure(o, name, command):
    dirty = int(time.time() * 1000) - 10_000_000
    with common.Server(command) as server:
        server.start()
        common.load(server.port, o.n, max(1, o.n // 20), dirty)
        batches = Batches(o.n, dirty)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        for kind in ["heartbeat", "register", "status", "conflict", "mixed"]:
            for _ in range(o.b // 5):
                ask(connection, *batches.of(kind))
            times = sorted(ask(connection, *batches.of(kind)) for _ in range(o.b))
            late = sum(t > LIMIT_MS for t in times)
            print(f"{name:12} {kind:10} p50 {times[len(times) // 2]:7.1f}  p99 {times[int(len(times) * .99)]:7.1f}  "
                  f"max {times[-1]:7.1f} ms   over {LIMIT_MS} ms: {late} of {o.b}", flush=True)
        connection.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=10_000, help="instances, a multiple of 250")
    parser.add_argument("-b", type=int, default=200, help="batches of each kind")
    parser.add_argument("servers", nargs="*", metavar="NAME=COMMAND")
    o = parser.parse_args()
    if o.n % ITEMS or o.b < 5:
        parser.error("-n has to be a multiple of 250, and -b at least 5")
    servers = [s.split("=", 1) for s in o.servers] or [
        ("eurekad", f"{common.EUREKAD} --data-dir={{dir}} --server.port={{port}} --logging.level.root=warn")]
    print(common.machine())
    for name, command in servers:
        measure(o, name, command)


if __name__ == "__main__":
    main()
