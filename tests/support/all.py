"""Runs every test of eurekad and ends with the line 'N passed, N failed'.

usage: tests/all                          everything
       tests/all PART [NAME ...] ...      some parts, and of a part with names only those

  fmt                  format, of eurekad and of the Rust driver among the clients
  clippy               lints, warnings denied
  doc                  the documentation builds, warnings denied
  policy               licenses, duplicate crates, sources and lock files against deny.toml
  test [FILTER ...]    cargo test: unit, integration, model and crash tests
  golden [SUITE ...]   the recorded answers of the Java server, in both profiles (tests/golden/check.py --help)
  api [NAME ...]       the description of the HTTP interface against a running eurekad (tests/api/run.py --help)
  clients [NAME ...]   real clients against a running eurekad (tests/clients/run.py --help)
  cluster [NAME ...]   clusters of processes, with the Java server among them (tests/cluster/run.py --help)

for example:  tests/all fmt clippy      tests/all golden core delta      tests/all clients python spring

It installs what the tests need: with apt-get when it runs as root, with pip, npm, go, mvn and cargo for the clients and the api; what
it cannot install it lists, and fails. eurekad is built once in release, for golden, api, clients and cluster, and
once with assertions, for cargo's tests; the clients and the Java server are prepared meanwhile. Built and downloaded
things and logs go to target/. EUREKAD_TEST_SERVER=COMMAND lets golden, api and clients check another server
(EUREKAD_TEST_REFERENCE=1: it is the Java one).
"""
import collections
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
SUPPORT = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(SUPPORT))
import harness  # noqa: E402  (its folder is only now on the path)
import needs  # noqa: E402

TESTS = harness.ROOT / "tests"
PARTS = ["fmt", "clippy", "doc", "policy", "test", "golden", "api", "clients", "cluster"]
CARGO_ENV = {"CARGO_TERM_COLOR": "never", "CARGO_INCREMENTAL": "0"}
STEP_TIMEOUT_S = 3600


class Tally:
    """What has passed and failed so far, and what failed by name."""

    def __init__(self):
        self.passed = self.failed = 0
        self.failures = []

    def add(self, name, passed, failed):
        self.passed += passed
        self.failed += failed
        if failed:
            self.failures.append(f"{name}: {failed} failed")

    def one(self, name, ok):
        print(f"{'PASS' if ok else 'FAIL'} {name}", flush=True)
        self.add(name, int(ok), int(not ok))


def heading(text):
    print(f"\n== {text}", flush=True)


def run(argv, env=None):
    """Runs a command, shows its output as it comes, and returns (status, output)."""
    proc = subprocess.Popen(
        list(map(str, argv)), cwd=harness.ROOT, env=os.environ | CARGO_ENV | (env or {}), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    watchdog = threading.Timer(STEP_TIMEOUT_S, proc.kill)
    watchdog.start()
    lines = []
    for line in proc.stdout:
        lines.append(line)
        print(line, end="", flush=True)
    status = proc.wait()
    watchdog.cancel()
    return status, "".join(lines)


def timed(function, *args):
    started = time.monotonic()
    result = function(*args)
    print(f"   {time.monotonic() - started:.0f} s", flush=True)
    return result


# ---- the parts ------------------------------------------------------------------------------------------------------
def part_fmt(tally, _names):
    tally.one("fmt", run(["cargo", "fmt", "--all", "--check", "--", "--color=never"])[0] == 0)
    driver = TESTS / "clients" / "rust" / "Cargo.toml"
    tally.one("fmt of the Rust driver", run(["cargo", "fmt", "--manifest-path", driver, "--check", "--", "--color=never"])[0] == 0)


def part_build(tally):
    ok = run(["cargo", "build", "--release", "--locked", "--bin", "eurekad"])[0] == 0
    tally.one("build", ok)
    return ok


def part_clippy(tally, _names):
    argv = ["cargo", "clippy", "--locked", "--all-targets", "--", "-D", "warnings"]
    tally.one("clippy", run(argv)[0] == 0)


def part_doc(tally, _names):
    argv = ["cargo", "doc", "--locked", "--no-deps", "--document-private-items"]
    tally.one("doc", run(argv, {"RUSTDOCFLAGS": "-D warnings"})[0] == 0)


def part_policy(tally, _names):
    _, out = run([sys.executable, SUPPORT / "policy.py"])
    passed, failed = len(re.findall(r"^PASS ", out, re.M)), len(re.findall(r"^FAIL ", out, re.M))
    tally.add("policy", passed, failed if passed + failed else 1)


def part_test(tally, names):
    argv = ["cargo", "test", "--locked", "--no-fail-fast"]
    status, out = run(argv + ["--", *names] if names else argv)
    counts = re.findall(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;", out, re.M)
    passed, failed, ignored = (sum(map(int, column)) for column in zip(*counts)) if counts else (0, 0, 0)
    tally.add("cargo test", passed, failed)
    if ignored:
        tally.one(f"cargo test: {ignored} tests are ignored, which no test may be", False)
    if not counts or (status != 0 and not failed):  # did not compile, or a test program died
        tally.one(f"cargo test ended with status {status}", False)


def counted(tally, name, argv):
    """Runs one of the Python runners and takes over its last line."""
    status, out = run(argv)
    result = re.search(r"^(\d+) passed, (\d+) failed\s*\Z", out, re.M)
    if not result:
        tally.one(f"{name} ended with status {status} and no result", False)
        return
    passed, failed = map(int, result.groups())
    tally.add(name, passed, failed or int(status != 0))


def other_server():
    command = os.environ.get("EUREKAD_TEST_SERVER")
    return ["--server", command] if command else []


def reference():
    return os.environ.get("EUREKAD_TEST_REFERENCE") == "1"


def part_golden(tally, names):
    one_profile = ["--profile", "eureka"] if reference() else []
    counted(tally, "golden", [sys.executable, TESTS / "golden" / "check.py", *other_server(), *one_profile, *names])


def api_argv(names):
    return [sys.executable, TESTS / "api" / "run.py", *other_server(), *names]


def part_api(tally, names):
    if reference():
        print("the Java server does not describe itself")
        return
    counted(tally, "api", api_argv(names))


def clients_argv(names):
    return [sys.executable, TESTS / "clients" / "run.py", *other_server(), *["--reference"] * reference(), *names]


def part_clients(tally, names):
    counted(tally, "clients", clients_argv(names))


def cluster_argv(names):
    return [sys.executable, TESTS / "cluster" / "run.py", *names]


def part_cluster(tally, names):
    counted(tally, "cluster", cluster_argv(names))


class Preparation(threading.Thread):
    """Installs and builds what is not ours while cargo is at work. Whatever fails here fails again, and is told, in its run."""

    def __init__(self, runners):
        super().__init__(daemon=True)
        self.runners = runners

    def run(self):
        for argv in self.runners:
            subprocess.run([*map(str, argv), "--prepare"], stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


# ---- what to run ----------------------------------------------------------------------------------------------------
def parse(args):
    """Part -> names, in the order of PARTS; everything without arguments."""
    if not args:
        return {part: [] for part in PARTS}
    chosen, current = collections.OrderedDict(), None
    for arg in args:
        if arg in PARTS and not (current == "clients" and arg in needs.CLIENTS):
            current = arg
            chosen.setdefault(arg, [])
        elif current in ("test", "golden", "api", "clients", "cluster"):
            chosen[current].append(arg)
        else:
            sys.exit(f"tests/all: no such part: {arg}; there are {', '.join(PARTS)} (see tests/all --help)")
    return {part: chosen[part] for part in PARTS if part in chosen}


def needed(chosen):
    names = []
    for part, which in chosen.items():
        names += needs.PARTS.get(part, [])
        if part == "clients":
            names += needs.PARTS["build"] if not other_server() else ["cargo"]
            names += [n for client in which or needs.CLIENTS for n in needs.CLIENTS.get(client, [])]
    return names


def main():
    args = sys.argv[1:]
    if "-h" in args or "--help" in args:
        print(__doc__.strip())
        return 0
    chosen = parse(args)
    tally = Tally()
    names = needed(chosen)
    try:
        needs.check(names)
        needs.install([n for n in names if n in needs.PARTS["test"]])  # the rest while cargo works
    except needs.Missing as e:
        print(f"missing:\n{e}\n\n0 passed, 1 failed")
        return 1
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.environ["GOTOOLCHAIN"] = "local"

    preparation = None
    argv_of = {"api": api_argv, "clients": clients_argv, "cluster": cluster_argv}
    runners = [argv(chosen[part]) for part, argv in argv_of.items() if part in chosen]
    if runners:
        preparation = Preparation(runners)
        preparation.start()
    # fmt first, since it answers at once; the build next, since most others want it
    if "fmt" in chosen:
        heading("fmt")
        timed(part_fmt, tally, [])
    if set(chosen) & {"test", "golden", "api", "clients", "cluster"} and not (other_server() and not set(chosen) & {"test", "cluster"}):
        heading("build")
        timed(part_build, tally)
    functions = {"clippy": part_clippy, "doc": part_doc, "policy": part_policy, "test": part_test,
                 "golden": part_golden, "api": part_api, "clients": part_clients, "cluster": part_cluster}
    for part, function in functions.items():
        if part not in chosen:
            continue
        if part in ("golden", "api", "clients", "cluster") and preparation and preparation.is_alive():
            heading("waiting for the clients and the Java server to be prepared")  # nothing else runs while answers are timed
            timed(preparation.join)
        heading(" ".join([part, *chosen[part]]))
        timed(function, tally, chosen[part])

    print("\n" + "\n".join(tally.failures))
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
