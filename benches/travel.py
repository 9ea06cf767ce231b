#!/usr/bin/env python3
"""How long any moment of a registry's past takes, and what the bases for it take on the disk.

usage: travel.py [-n 10000] [--changes 1000000] [--questions 200] [--server 'COMMAND with {port} and {dir}']

Registers N instances, makes CHANGES changes (statuses set by batches, as peers do), and asks for the registry at random
positions and at random times between the first change and the last, for a position near the oldest, and for differences.
Prints the median and the worst of each, the disk's share of log and bases, and memory. A node with the default settings keeps
seven days or 2 GiB, whichever is less: a million changes are one and a half a second for a week.
"""
import argparse
import gzip
import http.client
import json
import pathlib
import random
import re
import statistics
import tempfile
import time

import common

GZIP = {"Accept": "application/json", "Accept-Encoding": "gzip"}


def change(port, count, apps, changes, dirty):
    """Sets statuses, 250 instances a batch, each time another; the seconds that took."""
    begin, connection, done = time.monotonic(), http.client.HTTPConnection("127.0.0.1", port, timeout=120), 0
    bodies = []
    for start in range(0, count, 250):
        names = [common.instance(k, apps, dirty) for k in range(start, min(start + 250, count))]
        bodies.append([(i["app"], i["instanceId"]) for i in names])
    for round_ in range(changes // count + 1):
        status = ("OUT_OF_SERVICE", "UP")[round_ % 2]
        for names in bodies:
            if done >= changes:
                connection.close()
                return time.monotonic() - begin
            items = [{"appName": app, "id": i, "lastDirtyTimestamp": dirty, "status": status, "action": "StatusUpdate"}
                     for app, i in names]
            connection.request("POST", "/eureka/peerreplication/batch/", json.dumps({"replicationList": items}),
                               {"Content-Type": "application/json", "Accept": "application/json"})
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200 or body.count(b"200") < len(items):
                raise SystemExit(f"a batch of changes was answered {answer.status}: {body[:200]!r}")
            done += len(items)
    connection.close()
    return time.monotonic() - begin


def newest(port):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    c.request("HEAD", "/registry", headers=GZIP)
    answer = c.getresponse()
    return int(answer.headers["X-Eurekad-Lsn"])


def ask(port, targets, what, expected):
    times = []
    for target in targets:
        begin = time.monotonic()
        status, body = common.get(port, target, GZIP)
        times.append(time.monotonic() - begin)
        if status != 200:
            raise SystemExit(f"{target} was answered {status}: {body[:300]!r}")
        if expected:
            found = re.search(rb'"apps__hashcode":"([^"]*)"', gzip.decompress(body)).group(1)
            held = sum(int(n) for n in re.findall(rb"_(\d+)_", found))
            assert held == expected, f"{target}: {found!r}"
    times.sort()
    print(f"{what}: {len(times)} questions, median {statistics.median(times) * 1000:.0f} ms, "
          f"p90 {times[int(len(times) * 0.9)] * 1000:.0f} ms, worst {times[-1] * 1000:.0f} ms", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-n", type=int, default=10_000)
    p.add_argument("--changes", type=int, default=1_000_000)
    p.add_argument("--questions", type=int, default=200)
    p.add_argument("--server", default=f"{common.EUREKAD} --data-dir={{dir}} --server.port={{port}} "
                                       "--logging.level.root=warn --eurekad.durability=process")
    o = p.parse_args()
    print(common.machine())
    dirty, apps, draw = int(time.time() * 1000), max(o.n // 20, 1), random.Random(4711)
    with tempfile.TemporaryDirectory(prefix="eurekad-bench-") as directory:
        with common.Server(o.server, directory + "/data") as server:
            server.start()
            common.load(server.port, o.n, apps, dirty)
            time.sleep(1)
            first, begin = newest(server.port), time.time()
            seconds = change(server.port, o.n, apps, o.changes, dirty)
            last, end = newest(server.port), time.time()
            time.sleep(3)  # the last checkpoint
            data = pathlib.Path(directory) / "data"
            checkpoints = sorted(f.stat().st_size for f in data.glob("checkpoint-*"))
            database = sum(f.stat().st_size for f in (data / "log").rglob("*") if f.is_file())
            print(f"{o.n} instances, {last - first} changes in {seconds:.0f} s; on the disk {database / 2 ** 20:.0f} MiB of "
                  f"log and {sum(checkpoints) / 2 ** 20:.0f} MiB in {len(checkpoints)} checkpoints "
                  f"({sum(checkpoints) / database:.1%}); resident {common.resident_mb(server.process.pid):.0f} MB", flush=True)
            port, many = server.port, o.questions
            ask(port, ["/registry"] * 20, "the present", o.n)
            ask(port, [f"/registry?lsn={draw.randint(first, last)}" for _ in range(many)], "random positions", o.n)
            ask(port, [f"/registry?at={int(draw.uniform(begin, end) * 1000)}" for _ in range(many)], "random times", o.n)
            ask(port, [f"/registry?lsn={first + k}" for k in range(10)], "the oldest, one after the other", o.n)
            pairs = [sorted(int(draw.uniform(begin, end) * 1000) for _ in range(2)) for _ in range(max(many // 10, 1))]
            ask(port, [f"/registry/diff?from={a}&to={b}" for a, b in pairs], "differences of random times", None)
            print(f"resident {common.resident_mb(server.process.pid):.0f} MB")


if __name__ == "__main__":
    main()
