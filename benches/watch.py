#!/usr/bin/env python3
"""How soon watchers hear of a change, and what that costs the server.

usage: watch.py [--watchers 1000] [--rate 100] [--seconds 30] [--server 'COMMAND with {port} and {dir}']

Opens so many streams of /watch, changes the metadata of one instance so many times a second, and measures for every change
and every watcher the time from the answer to the change to the event. The client (watch_load.rs) runs on the same machine
and takes its share of it. Build both first: cargo build --release --bin eurekad --example watch_load
"""
import argparse
import http.client
import json
import subprocess
import sys
import time

import common

LOAD = common.EUREKAD.parent / "examples" / "watch_load"


def register(port, instance):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    c.request("POST", f"/eureka/apps/{instance['app']}", json.dumps({"instance": instance}), {"Content-Type": "application/json"})
    status = c.getresponse().status
    c.close()
    if status != 204:
        sys.exit(f"the registration was answered {status}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--watchers", type=int, default=1000)
    p.add_argument("--rate", type=float, default=100)
    p.add_argument("--seconds", type=float, default=30)
    p.add_argument("--server", default=f"{common.EUREKAD} --data-dir={{dir}} --server.port={{port}} --logging.level.root=warn")
    o = p.parse_args()
    print(common.machine())
    with common.Server(o.server) as server:
        server.start()
        instance = common.instance(0, 1, int(time.time() * 1000))
        register(server.port, instance)
        pid, before, begin = server.process.pid, common.cpu_seconds(server.process.pid), time.monotonic()
        name = f"{instance['app']}/{instance['instanceId']}"
        words = [LOAD, server.port, name, o.watchers, int(o.rate * o.seconds), o.rate]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{LOAD.name}: {done.stderr.strip()}")
        cpu, took = common.cpu_seconds(pid) - before, time.monotonic() - begin
        print(f"{o.watchers} watchers, {o.rate:g} changes/s for {took:.1f} s: {done.stdout.strip()}; server: {cpu:.1f} s of CPU "
              f"({cpu / took:.2f} cores), resident {common.resident_mb(pid):.0f} MB")


if __name__ == "__main__":
    main()
