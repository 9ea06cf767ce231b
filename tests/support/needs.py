"""What the tests need on the machine: finds it, installs what Debian has, and names what is missing.

Toolchains must be there. Programs that Debian packages are installed when running as root with apt-get. A test is never
left out because something is missing: either it gets it, or the run fails with the whole list.
"""
import functools
import os
import re
import shutil
import subprocess
import threading

# name -> (how to ask it, the lowest version that will do, what to say)
TOOLCHAINS = {
    "cargo": (["cargo", "--version"], (1, 95), "Rust 1.95 or newer (cargo)"),
    "rustfmt": (["cargo", "fmt", "--version"], (1,), "rustfmt (rustup component add rustfmt)"),
    "clippy": (["cargo", "clippy", "--version"], (0,), "clippy (rustup component add clippy)"),
    "python": (["python3", "--version"], (3, 11), "Python 3.11 or newer"),
    "git": (["git", "--version"], (2,), "git"),
    "node": (["node", "--version"], (18,), "Node.js 18 or newer"),
    "npm": (["npm", "--version"], (8,), "npm 8 or newer"),
    "go": (["go", "version"], (1, 21), "Go 1.21 or newer"),
    "java": (["java", "-version"], (17,), "Java 17 or newer (java)"),
    "javac": (["javac", "-version"], (17,), "a Java 17 development kit (javac)"),
    "mvn": (["mvn", "--version"], (3, 6), "Maven 3.6 or newer (mvn)"),
}
# name -> (whether it is there, Debian's package)
PROGRAMS = {
    "cc": (lambda: shutil.which("cc"), "build-essential"),
    "make": (lambda: shutil.which("make"), "build-essential"),
    "curl": (lambda: shutil.which("curl"), "curl"),
    "strace": (lambda: shutil.which("strace"), "strace"),
    "venv": (lambda: _runs(["python3", "-c", "import ensurepip, venv"]), "python3-venv"),
    "prometheus": (lambda: shutil.which("prometheus"), "prometheus"),
    "victoria-metrics": (lambda: shutil.which("victoria-metrics"), "victoria-metrics"),
}
# what each part of the tests is made of; the keys of clients are their folders in tests/clients
CARGO = ["cargo", "cc", "make"]
PARTS = {
    "fmt": ["cargo", "rustfmt"],
    "build": CARGO,
    "clippy": CARGO + ["clippy"],
    "doc": CARGO,
    "policy": ["cargo", "git"],
    "test": CARGO + ["strace"],
    "golden": CARGO,
    "api": CARGO + ["venv"],
    "cluster": CARGO + ["java", "javac", "mvn"],
}
CLIENTS = {
    "python": ["venv"],
    "js": ["node", "npm"],
    "go": ["go"],
    "java-netflix": ["java", "javac", "mvn"],
    "rust": CARGO,
    "prometheus": ["prometheus", "victoria-metrics"],
    "spring": ["java", "javac", "mvn"],
    "probes": ["curl"],
}
_apt = threading.Lock()


class Missing(Exception):
    """What is not there and could not be installed, one line each."""


def _runs(argv):
    try:
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@functools.cache
def toolchain_problem(name):
    """None if the toolchain will do, or what is wrong."""
    argv, lowest, wanted = TOOLCHAINS[name]
    env = os.environ | {"GOTOOLCHAIN": "local"}  # the one that is there, not one to be downloaded
    try:
        out = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, env=env)
    except (OSError, subprocess.TimeoutExpired):
        return f"{wanted}: not found"
    said = re.sub(r"\x1b\[[0-9;]*m", "", out.stdout + out.stderr)  # Maven prints in colours
    found = re.search(r"\d+(\.\d+)*", said)
    if out.returncode or not found:
        return f"{wanted}: not found"
    if tuple(map(int, found[0].split("."))) < lowest:
        return f"{wanted}: found {found[0]}"
    return None


def can_install():
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def check(names):
    """Raises Missing unless every one of the names is there or can be installed."""
    wanted = list(dict.fromkeys(["python"] + names))
    problems = [p for p in (toolchain_problem(n) for n in wanted if n in TOOLCHAINS) if p]
    packages = missing_packages(wanted)
    if packages and not can_install():
        problems.append(f"Debian packages (as root: apt-get install {' '.join(packages)})")
    if problems:
        raise Missing("\n".join(problems))


def missing_packages(names):
    return sorted({package for n in names if n in PROGRAMS for there, package in [PROGRAMS[n]] if not there()})


def install(names):
    """Installs the Debian packages that the names want and that are not there. Raises Missing with apt-get's own words."""
    with _apt:
        packages = missing_packages(names)
        if not packages:
            return
        env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        said = ""
        for argv in (["apt-get", "update", "-q"],
                     ["apt-get", "install", "-y", "-q", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", *packages]):
            out = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True, errors="replace", env=env)
            said += out.stdout
        missing_packages_after = missing_packages(names)
        if missing_packages_after:
            raise Missing(f"Debian packages {' '.join(missing_packages_after)}; apt-get said:\n{said[-2000:]}")
