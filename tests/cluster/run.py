#!/usr/bin/env python3
"""Clusters of real processes: eurekad with eurekad, and with the original, over real sockets.

usage: run.py [--prepare] [--server COMMAND] [--peer-jar JAR] [--client-jar JAR] [SCENARIO ...]
       run.py [options] measure

  --prepare         build the original and the Spring client, run nothing
  --server COMMAND  in place of target/release/eurekad
  --peer-jar JAR    a built tests/peer/eureka-server
  --client-jar JAR  a built tests/clients/spring
  measure           prints figures instead: how late a change is seen at a peer, and what a heartbeat costs between peers

One line 'PASS cluster NAME' or 'FAIL cluster NAME' for each scenario, and 'N passed, N failed' at the end. Waits are
bounded polls; no figure is asserted that a slow machine could miss, but those that the project promises (5 s after a
partition, 1 s beside a noisy client).
"""
import argparse
import importlib.util
import os
import pathlib
import shlex
import shutil
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent
sys.path.insert(0, str(TESTS / "support"))
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import harness  # noqa: E402  (its folder is only now on the path)
import leases  # noqa: E402
import measure  # noqa: E402
import mixed  # noqa: E402
import needs  # noqa: E402
import ours  # noqa: E402
from nodes import Cluster, Failed  # noqa: E402

MVN = ["mvn", "-q", "-B", "-ntp", "-DskipTests", "package"]
PREPARE_TIMEOUT_S = 1800


def clients_runner():
    """tests/clients/run.py, which knows how to build the Spring client."""
    spec = importlib.util.spec_from_file_location("clients_run", TESTS / "clients" / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def prepare():
    """Builds both jars, where they have changed: None, or what went wrong."""
    try:
        needs.check(needs.PARTS["cluster"])
        needs.install(needs.PARTS["cluster"])
    except needs.Missing as e:
        return f"missing:\n{e}"
    runner = clients_runner()
    wrong = runner.prepare("spring", runner.clients()["spring"])
    return wrong or build_peer(runner)


def peer_dir():
    return harness.target_dir() / "peer" / "eureka-server"


def build_peer(runner):
    source, build = TESTS / "peer" / "eureka-server", peer_dir()
    want = runner.fingerprint(source, [MVN])
    stamp = build / "built"
    if stamp.is_file() and stamp.read_text() == want:
        return None
    stamp.unlink(missing_ok=True)
    build.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, build, dirs_exist_ok=True, ignore=shutil.ignore_patterns("target"))
    log = harness.log_dir("cluster") / "peer.prepare.log"
    log.unlink(missing_ok=True)
    status = harness.run_logged(MVN, log, timeout=PREPARE_TIMEOUT_S, cwd=build)
    if status != 0:
        return f"{shlex.join(MVN)} ended with status {status}\n{harness.tail(log)}"
    stamp.write_text(want)
    return None


class Run:
    def __init__(self, options):
        self.options, self.passed, self.failed = options, 0, 0

    def scenario(self, scenario):
        """One scenario on a cluster of its own."""
        name, started, wrong = scenario.__name__.replace("_", "-"), time.monotonic(), None
        with Cluster(name, self.options) as cluster:
            try:
                scenario(cluster)
                if cluster.panics():
                    wrong = f"panics in {cluster.panics()}"
            except (Failed, OSError, ValueError, KeyError, RuntimeError) as e:
                wrong = f"{type(e).__name__}: {e}" if not isinstance(e, Failed) else str(e)
            took = f"({time.monotonic() - started:.0f} s)"
            if wrong:
                self.failed += 1
                print(f"FAIL cluster {name}: {scenario.__doc__} {took}\n    {wrong}")
                for node in cluster.nodes:
                    if node.log.is_file():
                        print(f"    the log of {node.name}:\n{harness.tail(node.log, 12)}")
            else:
                self.passed += 1
                print(f"PASS cluster {name}: {scenario.__doc__} {took}")
        sys.stdout.flush()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("scenarios", nargs="*", metavar="SCENARIO")
    p.add_argument("--prepare", action="store_true")
    p.add_argument("--server")
    p.add_argument("--peer-jar", type=pathlib.Path)
    p.add_argument("--client-jar", type=pathlib.Path)
    o = p.parse_args()
    known = {s.__name__.replace("_", "-"): s for s in [*mixed.SCENARIOS, *ours.SCENARIOS, *leases.SCENARIOS]}
    unknown = set(o.scenarios) - set(known) - {"measure"}
    if unknown:
        p.error(f"no such scenario: {', '.join(sorted(unknown))}; there are {', '.join(known)} and measure")
    chosen = [s for n, s in known.items() if not o.scenarios or n in o.scenarios]
    os.environ["no_proxy"] = "*"
    if not (o.peer_jar and o.client_jar):
        wrong = prepare()
        if wrong:
            print(f"FAIL cluster: the original or its client could not be built: {wrong}\n0 passed, {len(chosen) or 1} failed")
            return 1
    if o.prepare:
        return 0
    o.peer_jar = o.peer_jar or peer_dir() / "target" / "eureka-server.jar"
    o.client_jar = o.client_jar or clients_runner().build_dir("spring") / "target" / "eureka-client.jar"
    o.server = shlex.split(o.server) if o.server else [str(harness.target_dir() / "release" / "eurekad")]
    o.logs = harness.log_dir("cluster")
    if "measure" in o.scenarios:
        measure.all_figures(o)
        return 0
    run = Run(o)
    for scenario in chosen:
        run.scenario(scenario)
    print(f"{run.passed} passed, {run.failed} failed")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
