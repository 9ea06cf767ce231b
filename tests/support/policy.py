"""Checks what eurekad is made of against deny.toml, and that no lock file names a host.

usage: policy.py [licenses|bans|sources|locks ...]

It reads the sections [graph], [licenses], [bans] and [sources] of deny.toml as cargo-deny does, of which it knows only
the keys used there; any other key is an error, so that nothing stands in the file and is not checked. cargo-deny itself
takes longer to build than eurekad, so no test run builds it. One line 'PASS name' or 'FAIL name: why' for each check.
"""
import json
import re
import subprocess
import sys
import tomllib

import harness

KNOWN = {
    "graph": {"targets", "all-features"},
    "licenses": {"allow"},
    "bans": {"multiple-versions", "wildcards", "skip", "deny"},
    "sources": {"unknown-registry", "unknown-git", "allow-registry", "allow-git"},
}


def load_policy():
    policy = tomllib.loads((harness.ROOT / "deny.toml").read_text())
    for section, known in KNOWN.items():
        unknown = set(policy[section]) - known
        if unknown:
            raise SystemExit(f"deny.toml: [{section}] has keys that policy.py does not check: {sorted(unknown)}")
    return policy


def load_packages(policy):
    """Every package that one of the targets builds, tests included: id -> package."""
    packages = {}
    for target in policy["graph"]["targets"]:
        out = subprocess.run(
            ["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={target}"]
            + ["--all-features"] * policy["graph"]["all-features"],
            cwd=harness.ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if out.returncode:
            raise SystemExit(out.stderr)
        metadata = json.loads(out.stdout)
        used = {node["id"] for node in metadata["resolve"]["nodes"]}
        packages |= {p["id"]: p for p in metadata["packages"] if p["id"] in used}
    return list(packages.values())


def named(package):
    return f"{package['name']} {package['version']}"


def matches(package, spec):
    """`spec`: name, or name@version with as many parts of the version as matter."""
    name, _, version = spec.partition("@")
    return package["name"] == name and (not version or f"{package['version']}.".startswith(version + "."))


def license_allowed(expression, allowed):
    """Whether an SPDX expression can be met with the allowed licenses; '/' is the old spelling of OR."""
    tokens = re.findall(r"\(|\)|/|[^\s()/]+", expression)

    def either():
        value = both()
        while tokens and tokens[0] in ("OR", "/"):
            tokens.pop(0)
            value = both() or value
        return value

    def both():
        value = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            value = one() and value
        return value

    def one():
        name = tokens.pop(0)
        if name == "(":
            value = either()
            tokens.pop(0)
            return value
        if tokens and tokens[0] == "WITH":
            tokens.pop(0)
            name += " WITH " + tokens.pop(0)
        return name.removesuffix("+").removesuffix("-or-later").removesuffix("-only") in allowed

    value = either()
    if tokens:
        raise ValueError(f"not an SPDX expression: {expression}")
    return value


def check_licenses(policy, packages):
    allowed = set(policy["licenses"]["allow"])
    for p in packages:
        if not p["license"]:
            yield f"{named(p)} names no license"
        elif not license_allowed(p["license"], allowed):
            yield f"{named(p)} is under {p['license']}"


def check_bans(policy, packages):
    bans = policy["bans"]
    for ban in bans["deny"]:
        yield from (f"{named(p)} is banned: {ban['reason']}" for p in packages if matches(p, ban["crate"]))
    if bans["multiple-versions"] == "deny":
        skips = [s["crate"] for s in bans["skip"]]
        for skip in skips:
            if not any(matches(p, skip) for p in packages):
                yield f"{skip} is listed under skip, but nothing uses it"
        by_name = {}
        for p in packages:
            if not any(matches(p, skip) for skip in skips):
                by_name.setdefault(p["name"], []).append(p["version"])
        yield from (f"{name} is there in versions {', '.join(sorted(versions))}"
                    for name, versions in sorted(by_name.items()) if len(versions) > 1)
    if bans["wildcards"] == "deny":
        yield from (f"{named(p)} depends on any version of {d['name']}"
                    for p in packages if p["source"] is None for d in p["dependencies"]
                    if d["req"] == "*" and not d.get("path"))


def check_sources(policy, packages):
    sources = policy["sources"]
    registries = {f"registry+{url}" for url in sources["allow-registry"]}
    for p in packages:
        source = p["source"]
        if source is None:  # a member of this workspace
            continue
        kind, _, url = source.partition("+")
        allowed = source in registries if kind in ("registry", "sparse") else url.split("?")[0].split("#")[0] in sources[
            "allow-git"]
        if not allowed:
            yield f"{named(p)} comes from {source}"


def check_locks(_policy, _packages):
    """Lock files must work with whichever registry or mirror the machine has been set up for."""
    files = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=harness.ROOT,
                           capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, files):
        path = harness.ROOT / name
        if not path.is_file():
            continue
        if path.name in ("package-lock.json", "npm-shrinkwrap.json"):
            yield from (f"{name}: {key} is resolved to {entry['resolved']}"
                        for key, entry in json.loads(path.read_text()).get("packages", {}).items() if "resolved" in entry)
        elif path.name == "Cargo.lock":
            yield from (f"{name}: {source}" for source in set(re.findall(r'^source = "(.*)"$', path.read_text(), re.M))
                        if source != "registry+https://github.com/rust-lang/crates.io-index")
        elif path.name == "requirements.txt" or path.name == ".npmrc":
            yield from (f"{name}: {line}" for line in path.read_text().splitlines() if "://" in line)


CHECKS = {"licenses": check_licenses, "bans": check_bans, "sources": check_sources, "locks": check_locks}


def main():
    names = sys.argv[1:] or list(CHECKS)
    if set(names) - set(CHECKS):
        sys.exit(__doc__)
    policy = load_policy()
    packages = load_packages(policy)
    failed = 0
    for name in names:
        problems = list(CHECKS[name](policy, packages))
        failed += bool(problems)
        print(f"{'FAIL' if problems else 'PASS'} policy {name}", *problems, sep="\n     ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
