#!/usr/bin/env python3
"""Checks eurekad against the recorded answers of the Java server, in both of its profiles.

usage: check.py [--server COMMAND] [--profile eureka|default] [SUITE ...]

Each suite gets a server of its own, with an empty data directory and a free port, through record.py; the profiles run
side by side, since most of a suite's time is waiting. COMMAND stands for `target/release/eurekad`: the Java server, say,
to see that it agrees with its own record (with --profile eureka, and nothing in differ-eureka.txt).
`differ-PROFILE.txt` lists the cases that must differ, each with its reason. The last line is 'N passed, N failed'; the
servers' logs are kept in target/test-logs/golden.
"""
import argparse
import concurrent.futures
import fnmatch
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import harness  # noqa: E402  (its folder is only now on the path)

PROFILES = {"eureka": ["--eurekad.profile=eureka"], "default": []}
SUITE_TIMEOUT_S = 600


def suites():
    return [s["name"] for s in json.loads((HERE / "cases.json").read_text())["suites"]]


def differ_file(profile):
    return HERE / f"differ-{profile}.txt"


def check_suite(server, profile, suite):
    """One suite on a fresh server: (passed, failed, what record.py printed)."""
    log = harness.log_dir("golden") / f"{profile}-{suite}.log"
    log.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="eurekad-golden-") as data_dir:
        launch = f"{server} --data-dir {shlex.quote(data_dir)} {shlex.join(PROFILES[profile])}"
        argv = [sys.executable, str(HERE / "record.py"), "--check", "--suite", suite, "--launch", launch,
                "--port", str(harness.free_port()), "--log", str(log), "--settle", "0.2",
                "--lenient-errors", "--differ", str(differ_file(profile))]
        try:
            out = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True, errors="replace", timeout=SUITE_TIMEOUT_S).stdout
        except subprocess.TimeoutExpired as e:
            out = (e.stdout or b"").decode(errors="replace") + f"no result within {SUITE_TIMEOUT_S} s\n"
    result = re.search(r"^(\d+) passed, (\d+) failed\s*\Z", out, re.M)
    if not result:
        return 0, 1, f"{out}the check of this suite did not come to its end; the server's log:\n{harness.tail(log)}\n"
    passed, failed = map(int, result.groups())
    out = "".join(out.splitlines(keepends=True)[:-2])  # without record.py's own sums
    if b"panicked at" in log.read_bytes():
        failed += 1
        out += f"FAIL the server panicked:\n{harness.tail(log)}\n"
    return passed, failed, out


def check_profile(server, profile, names):
    passed = failed = 0
    for suite in names:
        ok, bad, out = check_suite(server, profile, suite)
        passed, failed = passed + ok, failed + bad
        shown = "".join(f"  {line}\n" for line in out.splitlines())
        print(f"{'FAIL' if bad else 'PASS'} golden {profile}/{suite}: {ok} passed, {bad} failed\n{shown}", end="",
              flush=True)
    return passed, failed


def check_lists():
    """Every line of the lists of differences names a case that there is, and a reason that begins with the tag of a row
    of the README's table."""
    readme = (harness.ROOT / "README.md").read_text()
    ids = [c["id"] for f in (HERE / "cases").glob("*.json") for s in json.loads(f.read_text())["scenarios"]
           for c in s["cases"]]
    problems = []
    for profile in PROFILES:
        for line in differ_file(profile).read_text().splitlines():
            pattern, _, reason = (part.strip() for part in line.partition("#"))
            tag = re.match(r"\[([a-z0-9-]+)\] \S", reason)
            if pattern and not tag:
                problems.append(f"{profile}: {pattern} has no reason of the form '[tag] why'")
            if tag and f"`{tag.group(1)}`" not in readme:
                problems.append(f"{profile}: {pattern} is for `{tag.group(1)}`, which the README does not tell of")
            if pattern and not any(fnmatch.fnmatch(i, pattern) for i in ids):
                problems.append(f"{profile}: {pattern} matches no case")
    print("\n     ".join([f"{'FAIL' if problems else 'PASS'} golden lists of differences"] + problems))
    return (0, 1) if problems else (1, 0)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("suites", nargs="*", metavar="SUITE")
    p.add_argument("--server", help="default: eurekad as built in release")
    p.add_argument("--profile", choices=PROFILES, help="one alone")
    o = p.parse_args()
    unknown = set(o.suites) - set(suites())
    if unknown:
        p.error(f"no such suite: {', '.join(sorted(unknown))}; there are {', '.join(suites())}")
    server = o.server or shlex.quote(str(harness.target_dir() / "release" / "eurekad"))
    names = o.suites or suites()
    profiles = [o.profile] if o.profile else list(PROFILES)
    with concurrent.futures.ThreadPoolExecutor(len(profiles)) as pool:
        results = [check_lists()] + list(pool.map(lambda profile: check_profile(server, profile, names), profiles))
    passed, failed = (sum(column) for column in zip(*results))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
