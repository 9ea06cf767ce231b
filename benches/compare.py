#!/usr/bin/env python3
"""Servers side by side under the same load: rate, rate per second of server CPU, latency, memory, ratios.

usage: compare.py [-n 10000] [-s 6] [-c 64] [--modes beat,register,...] [NAME='COMMAND with {port} and {dir}' ...]

Without servers, eurekad alone. Ratios are of each server to the first. wrk (a Debian package) makes the load; it has one
thread, so on a small machine the rate is also wrk's: the figure per CPU second is the one that says what a server costs.
Modes: beat (heartbeats), register (an equal dirty timestamp, so each replaces), delta, apps (JSON in gzip), app, instance.

  benches/compare.py "java=java -Xmx2g -jar tests/peer/eureka-server/target/eureka-server.jar --server.port={port} \\
      --eureka.client.register-with-eureka=false --eureka.client.fetch-registry=false" \\
      "eurekad=target/release/eurekad --data-dir={dir} --server.port={port} --logging.level.root=warn"
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import time

import common

MODES = "beat,register,delta,apps,app,instance"


def wrk(o, port, mode, seconds, dirty):
    connections = 8 if mode == "apps" else o.c
    env = dict(os.environ, MODE=mode, N=str(o.n), A=str(apps(o)), T=str(dirty))
    out = subprocess.run(
        ["wrk", "-t", "1", "-c", str(connections), "-d", f"{seconds}s", "--timeout", "20s", "-s",
         str(common.ROOT / "benches" / "load.lua"), f"http://127.0.0.1:{port}"],
        env=env, capture_output=True, text=True).stdout
    found = re.search(r"RESULT (.*)", out)
    if not found:
        sys.exit(f"wrk came to no result:\n{out}")
    return {k: int(v) for k, v in (pair.split("=") for pair in found.group(1).split())}


def apps(o):
    return max(1, o.n // 20)


def measure(o, name, command):
    dirty = int(time.time() * 1000)
    figures = {}
    with common.Server(command) as server:
        figures["start"] = server.start()
        pid = server.process.pid
        figures["empty_mb"] = common.resident_mb(pid)
        common.load(server.port, o.n, apps(o), dirty)
        figures["loaded_mb"] = common.resident_mb(pid)
        for mode in o.modes.split(","):
            wrk(o, server.port, mode, o.warm, dirty)
            before = common.cpu_seconds(pid)
            w = wrk(o, server.port, mode, o.s, dirty)
            cpu = max(common.cpu_seconds(pid) - before, 0.01)
            figures[mode] = dict(per_s=w["requests"] / w["duration_us"] * 1e6, per_cpu_s=w["requests"] / cpu,
                                 p50_ms=w["p50_us"] / 1e3, p99_ms=w["p99_us"] / 1e3, bad=w["bad"] + w["sockerr"])
        figures["after_mb"] = common.resident_mb(pid)
    print(f"\n{name}: start {figures['start']:.2f} s, resident {figures['empty_mb']:.0f} MB empty, "
          f"{figures['loaded_mb']:.0f} MB with {o.n} instances, {figures['after_mb']:.0f} MB after the load")
    for mode in o.modes.split(","):
        f = figures[mode]
        print(f"  {mode:9} {f['per_s']:9.0f}/s  {f['per_cpu_s']:9.0f} per CPU second  p50 {f['p50_ms']:7.2f} ms  "
              f"p99 {f['p99_ms']:8.2f} ms" + (f"  {f['bad']} BAD" if f["bad"] else ""), flush=True)
    return figures


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-n", type=int, default=10000, help="instances (default 10000), twenty to an application")
    p.add_argument("-s", type=int, default=6, help="seconds per mode (default 6)")
    p.add_argument("-c", type=int, default=64, help="connections (default 64)")
    p.add_argument("--warm", type=int, default=4, help="seconds before each that do not count (default 4)")
    p.add_argument("--modes", default=MODES)
    p.add_argument("servers", nargs="*", metavar="NAME=COMMAND")
    o = p.parse_args()
    if not shutil.which("wrk"):
        sys.exit("wrk is missing: apt-get install wrk")
    servers = o.servers or [f"eurekad={common.EUREKAD} --data-dir={{dir}} --server.port={{port}} "
                            "--logging.level.root=warn"]
    print(common.machine())
    results = [(s.split("=", 1)[0], measure(o, *s.split("=", 1))) for s in servers]
    first, base = results[0]
    for name, figures in results[1:]:
        print(f"\n{name} against {first}: resident x{base['after_mb'] / figures['after_mb']:.1f} smaller, "
              f"start x{base['start'] / figures['start']:.0f} faster")
        for mode in o.modes.split(","):
            a, b = base[mode], figures[mode]
            print(f"  {mode:9} rate x{b['per_s'] / a['per_s']:.1f}, per CPU second x{b['per_cpu_s'] / a['per_cpu_s']:.1f}, "
                  f"p99 {a['p99_ms']:.2f} -> {b['p99_ms']:.2f} ms")


if __name__ == "__main__":
    main()
