#!/usr/bin/env python3
"""What the history costs: to ask, to keep on the disk, and to the write path.

usage: history.py [-n 1000000] [--questions 500] [--writes 20000] [--server 'COMMAND with {port}, {dir} and {index}']

Fills a node with N changes of 1,000 instances (re-registrations through the peers' batches), waits until the index has
caught up, and prints
  - p50 and p99 of GET /history/apps/APP/ID with its newest 100 entries, on one connection, each instance in turn,
  - entries and MiB per second of GET /history as NDJSON, the whole log once,
  - bytes per change of the log, of the database file and of the index files,
  - changes per second with eurekad.history-index=true and =false, and the CPU seconds of the server for them.
"""
import argparse
import http.client
import os
import pathlib
import tempfile
import time

import common

INSTANCES, APPS = 1000, 20


def node(port):
    return common.json.loads(common.get(port, "/node")[1])


def fill(port, changes, dirty):
    """So many changes: every instance registers again with a newer version, as often as it takes."""
    for round_ in range(changes // INSTANCES):
        common.load(port, INSTANCES, APPS, dirty + round_)


def wait_for_index(port):
    begin = time.monotonic()
    while True:
        store = node(port)["store"]
        if store["history"]["index"]["segments"] + 1 >= store["segments"]:
            return time.monotonic() - begin
        time.sleep(0.1)


def ask(port, questions):
    connection, times, entries = http.client.HTTPConnection("127.0.0.1", port, timeout=60), [], 0
    for k in range(questions):
        i = common.instance(k % INSTANCES, APPS, 0)
        begin = time.perf_counter()
        connection.request("GET", f"/history/apps/{i['app']}/{i['instanceId']}")
        body = connection.getresponse().read()
        times.append((time.perf_counter() - begin) * 1000)
        entries += body.count(b'"lsn":')
    connection.close()
    times.sort()
    return times[len(times) // 2], times[len(times) * 99 // 100], entries / questions


def scan(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    begin = time.monotonic()
    connection.request("GET", "/history?order=oldest", headers={"Accept": "application/x-ndjson"})
    answer, lines, size = connection.getresponse(), 0, 0
    while piece := answer.read(1 << 20):
        lines, size = lines + piece.count(b"\n"), size + len(piece)
    connection.close()
    return lines, size, time.monotonic() - begin


def size_of(folder):
    return sum(file.stat().st_size for file in pathlib.Path(folder).rglob("*") if file.is_file())


def write_rate(command, index, writes):
    with common.Server(command.replace("{index}", index)) as server:
        server.start()
        pid = server.process.pid
        cpu, begin = common.cpu_seconds(pid), time.monotonic()
        fill(server.port, writes, int(time.time() * 1000))
        seconds = time.monotonic() - begin
        time.sleep(2)  # the index is behind by up to half a second; its work is counted
        return writes / seconds, common.cpu_seconds(pid) - cpu


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-n", type=int, default=1_000_000)
    p.add_argument("--questions", type=int, default=500)
    p.add_argument("--writes", type=int, default=20_000)
    p.add_argument("--server", default=f"{common.EUREKAD} --data-dir={{dir}} --server.port={{port}} --logging.level.root=warn "
                                       "--eurekad.durability=process --eurekad.history-index={index}")
    o = p.parse_args()
    print(common.machine())
    with tempfile.TemporaryDirectory(prefix="eurekad-bench-") as directory:
        with common.Server(o.server.replace("{index}", "true"), directory + "/data") as server:
            server.start()
            begin = time.monotonic()
            fill(server.port, o.n, int(time.time() * 1000))
            print(f"{o.n} changes of {INSTANCES} instances in {time.monotonic() - begin:.0f} s")
            print(f"the index had caught up {wait_for_index(server.port):.1f} s later")
            store = node(server.port)["store"]
            index = size_of(os.path.join(directory, "data", "index"))
            print(f"bytes per change: {store['log_bytes'] / o.n:.0f} in the log, {store['file_bytes'] / o.n:.0f} in the "
                  f"database file, {index / o.n:.0f} in index files ({store['segments']} segments); the index takes "
                  f"{store['history']['index']['memory_bytes'] / 2 ** 20:.1f} MiB of memory")
            p50, p99, entries = ask(server.port, o.questions)
            print(f"one instance of {o.n} changes: p50 {p50:.2f} ms, p99 {p99:.2f} ms for {entries:.0f} entries")
            lines, size, seconds = scan(server.port)
            print(f"all as NDJSON: {lines} entries, {size / 2 ** 20:.0f} MiB in {seconds:.1f} s, "
                  f"{lines / seconds:.0f} entries/s, {size / 2 ** 20 / seconds:.0f} MiB/s", flush=True)
    for index in ("true", "false", "true", "false"):
        rate, cpu = write_rate(o.server, index, o.writes)
        print(f"history-index={index}: {rate:.0f} changes/s, {cpu / o.writes * 1e6:.0f} CPU us per change", flush=True)


if __name__ == "__main__":
    main()
