#!/usr/bin/env python3
"""Installs eurekad's real clients and drives each against a server of its own.

usage: run.py [--prepare] [--server COMMAND | --base URL] [--reference] [CLIENT ...]

The clients are the folders beside this file; each has a driver that ends with status 0 only if a user of that client
would be content. What is downloaded and built goes to target/clients, logs to target/test-logs/clients.

  --prepare         install and build, run nothing
  --server COMMAND  in place of target/release/eurekad; `--data-dir DIR --server.port=N` is appended
  --base URL        a server that runs already (http://127.0.0.1:8761/eureka), as it is; not for spring
  --reference       the server is the Java one: see the drivers for what is let pass there

One line 'PASS client NAME' or 'FAIL client NAME' for each run of a driver, and 'N passed, N failed' at the end.
"""
import argparse
import concurrent.futures
import dataclasses
import hashlib
import os
import pathlib
import shlex
import shutil
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import harness  # noqa: E402  (its folder is only now on the path)
import needs  # noqa: E402

PREPARE_TIMEOUT_S = 1800
RUN_TIMEOUT_S = 300
WAIT_S = os.environ.get("EUREKA_DRIVER_WAIT", "15")  # how long a driver waits for a change to be seen; the machine is slow, not the server
REFERENCE_ARGS = ["--eureka.server.use-read-only-response-cache=false",
                  "--eureka.server.wait-time-in-ms-when-sync-empty=0"]
_maven = threading.Lock()  # its local repository is not made for two at a time


@dataclasses.dataclass
class Run:
    """One run of a driver. {base} in argv becomes the server's URL."""

    name: str
    argv: list
    server_args: list = dataclasses.field(default_factory=list)
    own_server: bool = False  # the driver starts its server by itself, from --server


@dataclasses.dataclass
class Client:
    prepare: list  # commands, run in the build directory, where a copy of the folder lies
    runs: list
    maven: bool = False


def build_dir(name):
    return harness.target_dir() / "clients" / name


def clients():
    def at(name, *parts):
        return str(build_dir(name).joinpath(*parts))

    python = sys.executable
    mvn = ["mvn", "-q", "-B", "-ntp", "-DskipTests"]
    jars = os.pathsep.join((at("java-netflix", "target", "classes"), at("java-netflix", "target", "dependency", "*")))
    js = ["node", at("js", "driver.js"), "{base}"]
    return {
        "python": Client(
            [[python, "-m", "venv", "--clear", "venv"],
             ["venv/bin/pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "-r", "requirements.txt"]],
            [Run("python", [at("python", "venv", "bin", "python"), at("python", "driver.py"), "{base}"])]),
        "js": Client(
            [["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]],
            [Run("js", js), Run("js-fork", js + ["@rocketsoftware/eureka-js-client"])]),
        "go": Client(
            [["go", "build", "-mod=readonly", "-o", "fargo-driver", "./fargo"]],
            [Run(f"go-{mode}", [at("go", "fargo-driver"), "{base}", mode]) for mode in ("xml", "json")]),
        "java-netflix": Client(
            [mvn + ["compile", "dependency:copy-dependencies"]],
            [Run("java-netflix", ["java", "-Xmx256m", "-cp", jars, "drive.Driver", "{base}"])], maven=True),
        "rust": Client(
            [["cargo", "build", "-q", "--locked", "--target-dir", "target"]],
            [Run("rust", [at("rust", "target", "debug", "eureka-rust-driver"), "{base}"])]),
        "prometheus": Client(
            [], [Run(kind, [python, at("prometheus", "driver.py"), "{base}", kind, str(harness.ROOT / "ops" / "alerts.yml")])
                 for kind in ("prometheus", "victoria-metrics")]),
        "spring": Client(
            [mvn + ["package"]],
            [Run("spring", [python, str(HERE / "spring" / "driver.py"), at("spring", "target", "eureka-client.jar")],
                 own_server=True)], maven=True),
        "probes": Client(
            [], [Run("probes", [python, at("probes", "driver.py"), "{base}"],
                     ["--eurekad.profile=eureka", "--eureka.server.use-read-only-response-cache=false"])]),
    }


# ---- install and build ----------------------------------------------------------------------------------------------
def fingerprint(folder, commands):
    """Of all that a build is made of, so that it is made anew when and only when that has changed."""
    digest = hashlib.sha256(repr(commands).encode())
    files = (p for p in folder.rglob("*") if p.is_file() and p.suffix != ".md" and "target" not in p.relative_to(folder).parts)
    for path in sorted(files):
        digest.update(f"{path.relative_to(folder)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def prepare(name, client):
    """Installs and builds one client: None, or what went wrong."""
    log = harness.log_dir("clients") / f"{name}.prepare.log"
    log.unlink(missing_ok=True)
    try:
        needs.install(needs.CLIENTS[name])
    except needs.Missing as e:
        return str(e)
    build, want = build_dir(name), fingerprint(HERE / name, client.prepare)
    stamp = build / "built"
    if stamp.is_file() and stamp.read_text() == want:
        return None
    stamp.unlink(missing_ok=True)
    build.mkdir(parents=True, exist_ok=True)
    shutil.copytree(HERE / name, build, dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("target", "node_modules", "__pycache__", "venv"))
    env = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}
    env.pop("RUSTFLAGS", None)
    with _maven if client.maven else threading.Lock():
        started = time.monotonic()
        for argv in client.prepare:
            status = harness.run_logged(argv, log, timeout=PREPARE_TIMEOUT_S, cwd=build, env=env)
            if status != 0:
                return f"{shlex.join(argv)} ended with status {status}\n{harness.tail(log)}"
    stamp.write_text(want)
    print(f"   prepared client {name} in {time.monotonic() - started:.0f} s", flush=True)
    return None


def prepare_all(chosen):
    """Prepares side by side, two at a time: most of it is waiting for downloads. Name -> None or what went wrong."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(zip(chosen, pool.map(lambda item: prepare(*item), chosen.items())))


# ---- run ------------------------------------------------------------------------------------------------------------
def drive(run, o):
    """One run of a driver: None, or what went wrong. Its output is in `o.log`, the server's in `o.server_log`."""
    env = os.environ | {"EUREKA_DRIVER_WAIT": WAIT_S, "PYTHONDONTWRITEBYTECODE": "1"}
    if o.reference:
        env["EUREKA_DRIVER_REFERENCE"] = "1"
    extra = REFERENCE_ARGS if o.reference else []

    def driver(argv):
        status = harness.run_logged(argv, o.log, timeout=RUN_TIMEOUT_S, env=env)
        return None if status == 0 else f"the driver ended with status {status}"

    if run.own_server:
        if o.base:
            return "it starts its server by itself: give --server, not --base"
        command = shlex.join(shlex.split(o.server) + extra)
        argv = run.argv + ["--server", command, "--server-log", str(o.server_log)] + ["--reference"] * o.reference
        return driver(argv)
    if o.base:
        return driver([a.replace("{base}", o.base) for a in run.argv])
    args = list(dict.fromkeys(run.server_args + extra))  # Spring joins the values of an option that comes twice
    with harness.Server(o.server, o.server_log, args) as server:
        wrong = driver([a.replace("{base}", server.base) for a in run.argv])
        ended = server.stop()
        return wrong or ended


def run_client(client, o):
    passed = failed = 0
    for run in client.runs:
        o.log, o.server_log = (harness.log_dir("clients") / f"{run.name}{kind}.log" for kind in ("", ".server"))
        o.log.unlink(missing_ok=True)
        o.server_log.unlink(missing_ok=True)
        started = time.monotonic()
        try:
            wrong = drive(run, o)
        except (RuntimeError, OSError) as e:
            wrong = str(e)
        took = f"({time.monotonic() - started:.0f} s)"
        if wrong:
            failed += 1
            print(f"FAIL client {run.name} {took}: {wrong}")
            if o.log.is_file():
                print(harness.tail(o.log))
            if o.server_log.is_file():
                print(f"    the server's log:\n{harness.tail(o.server_log, 15)}")
        else:
            passed += 1
            print(f"PASS client {run.name} {took}")
        sys.stdout.flush()
    return passed, failed


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("clients", nargs="*", metavar="CLIENT")
    p.add_argument("--prepare", action="store_true")
    p.add_argument("--server")
    p.add_argument("--base")
    p.add_argument("--reference", action="store_true")
    o = p.parse_args()
    known = clients()
    unknown = set(o.clients) - set(known)
    if unknown:
        p.error(f"no such client: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    chosen = {n: c for n, c in known.items() if not o.clients or n in o.clients}
    try:
        needs.check([n for name in chosen for n in needs.CLIENTS[name]])
    except needs.Missing as e:
        print(f"missing:\n{e}\n0 passed, {len(chosen)} failed")
        return 1
    o.server = o.server or shlex.quote(str(harness.target_dir() / "release" / "eurekad"))
    passed = failed = 0
    for name, wrong in prepare_all(chosen).items():
        if wrong:
            failed += 1
            print(f"FAIL client {name}: it could not be prepared: {wrong}")
        elif not o.prepare:
            ok, bad = run_client(chosen[name], o)
            passed, failed = passed + ok, failed + bad
        else:
            passed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
