#!/usr/bin/env python3
"""Holds the description of the HTTP interface (/openapi.json) against the server that it describes.

usage: run.py [--prepare] [--server COMMAND] [--document FILE] [--examples N] [NAME ...] [-- ARGUMENT ...]

  validator   openapi-spec-validator finds nothing in the document
  examples    the examples of the document, against a filled registry
  coverage    schemathesis: every parameter at its bounds, left out, twice, of the wrong type; every other method
  fuzzing     schemathesis: generated requests, valid and not
  stateful    schemathesis: sequences along the links, from an empty registry

Each but the first asks a server of its own, with a fixed seed, and fails on any answer that is not in the document, is not
as it is there, or is a server's error. What is downloaded goes to target/api, logs to target/test-logs/api.

  --prepare         install, run nothing
  --server COMMAND  in place of target/release/eurekad; `--data-dir DIR --server.port=N` is appended
  --document FILE   in place of what the server serves, while it is being written
  --examples N      generated requests per operation, and sequences (20)
  -- ARGUMENT       for schemathesis, such as --include-path=/history

One line 'PASS api NAME' or 'FAIL api NAME' each, and 'N passed, N failed' at the end.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import harness  # noqa: E402  (its folder is only now on the path)
import needs  # noqa: E402

SEED = 20261130
PREPARE_TIMEOUT_S = 600
RUN_TIMEOUT_S = 300
PHASES = ["examples", "coverage", "fuzzing", "stateful"]
NAMES = ["validator", *PHASES]
SERVER_ARGS = ["--management.endpoints.web.exposure.include=health,info,prometheus"]
JSON = {"Content-Type": "application/json"}


def build_dir():
    return harness.target_dir() / "api"


def prepare():
    """Installs the two tools: None, or what went wrong."""
    log = harness.log_dir("api") / "prepare.log"
    log.unlink(missing_ok=True)
    try:
        needs.install(needs.PARTS["api"])
    except needs.Missing as e:
        return str(e)
    build, stamp = build_dir(), build_dir() / "built"
    want = hashlib.sha256((HERE / "requirements.txt").read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == want:
        return None
    stamp.unlink(missing_ok=True)
    build.mkdir(parents=True, exist_ok=True)
    for argv in ([sys.executable, "-m", "venv", "--clear", "venv"],
                 ["venv/bin/pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "-r", HERE / "requirements.txt"]):
        status = harness.run_logged(argv, log, timeout=PREPARE_TIMEOUT_S, cwd=build)
        if status != 0:
            return f"{shlex.join(map(str, argv))} ended with status {status}\n{harness.tail(log)}"
    stamp.write_text(want)
    return None


def tool(name):
    return build_dir() / "venv" / "bin" / name


# ---- what is in the registry ----------------------------------------------------------------------------------------
def instance(app, iid, **more):
    return {"instance": {
        "instanceId": iid, "app": app, "hostName": "h1.example", "ipAddr": "10.0.0.1", "vipAddress": "billing,odd",
        "secureVipAddress": "billing", "port": {"$": 8080, "@enabled": "true"}, "metadata": {"version": "4711"},
        "dataCenterInfo": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"}} | more}


def fill(base):
    """Registers what the dictionaries name, and gives it a history."""
    def ask(method, path, body=None, headers=None):
        data = None if body is None else json.dumps(body).encode()
        status, _ = harness.fetch(base + path, method, data, (headers or {}) | (JSON if body else {}))
        if status not in (200, 204):
            raise RuntimeError(f"{method} {path} answered {status} while the registry was filled")

    amazon = {"@class": "com.netflix.appinfo.AmazonInfo", "name": "Amazon", "metadata": {"availability-zone": "us-east-1a"}}
    for app, iid, more in [("BILLING", "billing-1", {}), ("BILLING", "billing-2", {"dataCenterInfo": amazon}),
                           ("ODD NAME", "h:odd:80/x", {"metadata": {"ä<&": "\"ö\" 'ü'\n"}}), ("GONE", "gone-1", {})]:
        ask("POST", f"/apps/{app.replace(' ', '%20')}", instance(app, iid, **more))
    ask("PUT", "/apps/BILLING/billing-2/status?value=OUT_OF_SERVICE", headers={"X-Reason": "deploy 4711"})
    ask("PUT", "/apps/BILLING/billing-1/metadata?weight=10")
    ask("DELETE", "/apps/GONE/gone-1")


# ---- the checks -----------------------------------------------------------------------------------------------------
def validate(base, log):
    document = build_dir() / "openapi.json"
    status, body = harness.fetch(base.removesuffix("/eureka") + "/openapi.json")
    if status != 200:
        return f"/openapi.json answered {status}"
    document.write_bytes(body)
    status = harness.run_logged([tool("openapi-spec-validator"), document], log, timeout=RUN_TIMEOUT_S)
    return None if status == 0 else f"openapi-spec-validator ended with status {status}"


def ask(phase, server, o, log):
    document = [o.document.resolve(), "--url", server.root] if o.document else [server.root + "/openapi.json"]
    argv = [tool("schemathesis"), "--config-file", HERE / "schemathesis.toml", "run", *document,
            f"--phases={phase}", f"--seed={SEED}", f"--max-examples={o.examples}", "--workers=1", "--continue-on-failure", *o.more]
    env = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1", "COLUMNS": "140"}
    folder = build_dir() / "run"  # where it keeps what it has found
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(HERE / "hooks.py", folder)
    status = harness.run_logged(argv, log, timeout=RUN_TIMEOUT_S, cwd=folder, env=env | {"PYTHONPATH": str(folder)})
    return None if status == 0 else f"schemathesis ended with status {status}"


def run(name, o):
    log, server_log = (harness.log_dir("api") / f"{name}{kind}.log" for kind in ("", ".server"))
    log.unlink(missing_ok=True)
    server_log.unlink(missing_ok=True)
    started = time.monotonic()
    try:
        with harness.Server(o.server, server_log, SERVER_ARGS) as server:
            if name in ("examples", "coverage", "fuzzing"):
                fill(server.base)
            wrong = validate(server.base, log) if name == "validator" else ask(name, server, o, log)
            wrong = wrong or server.stop()
    except (RuntimeError, OSError) as e:
        wrong = str(e)
    took = time.monotonic() - started
    told = re.findall(r"^.*(?:Test cases|generated).*$", log.read_text(errors="replace") if log.is_file() else "", re.M)
    print(f"{'FAIL' if wrong else 'PASS'} api {name} ({took:.0f} s){': ' + wrong if wrong else ''}{' ' + told[-1].strip() if told else ''}")
    if wrong:
        print(f"{harness.tail(log, 120)}\n    the server's log:\n{harness.tail(server_log, 15)}")
    sys.stdout.flush()
    return not wrong


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--prepare", action="store_true")
    p.add_argument("--server")
    p.add_argument("--document", type=pathlib.Path)
    p.add_argument("--examples", type=int, default=20)
    ours, _, more = " ".join(map(shlex.quote, sys.argv[1:])).partition(" -- ")
    o = p.parse_args(shlex.split(ours))
    o.more = shlex.split(more)
    unknown = set(o.names) - set(NAMES)
    if unknown:
        p.error(f"no such check: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    chosen = [name for name in NAMES if not o.names or name in o.names]
    try:
        needs.check(needs.PARTS["api"])
    except needs.Missing as e:
        print(f"missing:\n{e}\n0 passed, {len(chosen)} failed")
        return 1
    wrong = prepare()
    if wrong:
        print(f"FAIL api: the tools could not be prepared: {wrong}\n0 passed, {len(chosen)} failed")
        return 1
    if o.prepare:
        print("1 passed, 0 failed")
        return 0
    o.server = o.server or shlex.quote(str(harness.target_dir() / "release" / "eurekad"))
    results = [run(name, o) for name in chosen]
    print(f"{sum(results)} passed, {results.count(False)} failed")
    return 1 if not all(results) else 0


if __name__ == "__main__":
    sys.exit(main())
