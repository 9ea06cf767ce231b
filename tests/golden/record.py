#!/usr/bin/env python3
"""Records what a Eureka server answers, and checks another server against the record. Python's library only.

  record.py --launch 'java -Xmx1g -jar SERVER.jar' --record        every suite, each on a server of its own
  record.py --launch 'java -Xmx1g -jar SERVER.jar' --check         the same, compared with cases/
  record.py --launch 'OTHER-SERVER' --check --suite core,delta     suites by name
  record.py --base http://127.0.0.1:8761 --check --suite core      a server started by hand, fresh, with the suite's
                                                                    properties (record.py --list shows them)
  record.py --base URL --check --suite core --only 'core/one/*'    scenarios or cases by pattern

--launch appends --server.port=N and the suite's --property=value arguments. In the check:
  --strict            also the order of fields, and the whole Content-Type
  --status-only       statuses alone
  --lenient-errors    not the body and type of answers >= 400 whose recorded body is the Spring error page
  --lenient-refusals  any answer >= 400 will do where 400, 406, 415 or 500 is recorded
  --skip-tier A,B     leaves tiers out of the count (their requests are still sent)
  --differ FILE       lines of 'case-id-or-pattern  # reason': these must differ, all else must not
The last line printed is 'N passed, M failed'. What is normalised is written in README.md beside this file.
"""
import argparse
import base64
import difflib
import fnmatch
import gzip
import hashlib
import html
import http.client
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import xml.etree.ElementTree as ET

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = os.path.join(HERE, "cases")
WINDOW_MS = 15 * 60 * 1000
INLINE_MAX = 32 * 1024


# ---- one exchange ---------------------------------------------------------------------------------------------------
def exchange(base, method, path, headers, body, timeout=30):
    u = urllib.parse.urlsplit(base)
    lines = [f"{method} {path} HTTP/1.1", f"Host: {u.netloc}"]
    lines += [f"{k}: {v}" for k, v in headers.items()]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    lines.append("Connection: close")
    raw = ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8") + (body or b"")
    with socket.create_connection((u.hostname, u.port or 80), timeout=timeout) as sock:
        try:
            sock.sendall(raw)
        except OSError:
            pass  # the server may answer and close before it has read everything
        r = http.client.HTTPResponse(sock, method=method)
        try:
            r.begin()
            data = r.read()
        except (http.client.HTTPException, OSError) as e:
            return dict(status=0, headers=[], body=b"", error=type(e).__name__)
    encoding = (r.getheader("Content-Encoding") or "").lower()
    if encoding == "gzip" and data:
        data = gzip.decompress(data)
    keep = [(k, v) for k, v in r.getheaders() if k.lower() not in ("date", "connection", "keep-alive")]
    return dict(status=r.status, headers=keep, body=data)


def header(headers, name):
    vals = [v for k, v in headers if k.lower() == name.lower()]
    return ", ".join(vals) if vals else None


# ---- bodies in the record -------------------------------------------------------------------------------------------
def page_text(raw):
    """What a page says, without its markup: one line per cell, heading or item."""
    t = re.sub(r"\s+", " ", raw.decode("utf-8", "replace"))
    t = re.sub(r"(?s)<(script|style|head)\b.*?</\1>", " ", t)
    t = re.sub(r"(?i)<a\b[^>]*href=\"([^\"]*)\"[^>]*>", r"[\1] ", t)
    t = re.sub(r"(?i)</?(tr|h\d|li|p|ul|table|div|thead|tbody|nav|button)\b[^>]*>", "\n", t)
    t = re.sub(r"(?i)</(td|th)>", " | ", t)
    t = html.unescape(re.sub(r"<[^>]*>", "", t))
    return "\n".join(filter(None, (re.sub(r"\s+", " ", ln).strip(" |") for ln in t.split("\n"))))


def put_body(case_id, what, data):
    if data is None:
        return {}
    if len(data) <= INLINE_MAX:
        try:
            t = data.decode("utf-8")
            if "\x00" not in t:
                return {"body": t}
        except UnicodeDecodeError:
            pass
        return {"body_base64": base64.b64encode(data).decode()}
    name = "bodies/" + re.sub(r"[^A-Za-z0-9_.-]+", "-", case_id) + "." + what
    os.makedirs(os.path.join(HERE, "bodies"), exist_ok=True)
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(data)
    return {"body_file": name}


def get_body(part):
    if "body" in part:
        return part["body"].encode()
    if "body_base64" in part:
        return base64.b64decode(part["body_base64"])
    if "body_file" in part:
        with open(os.path.join(HERE, part["body_file"]), "rb") as f:
            return f.read()
    return None


# ---- normalisation --------------------------------------------------------------------------------------------------
class Norm:
    """Makes two answers to the same question comparable. at: the clock of the exchange, base: the server's URL."""

    def __init__(self, case, at, base):
        self.case, self.at, self.base = case, at, base

    def now(self, v):
        if isinstance(v, bool) or not isinstance(v, (int, str)):
            return v
        t = str(v)
        if len(t) == 13 and t.isdigit() and abs(int(t) - self.at) < WINDOW_MS:
            return "<NOW>" if isinstance(v, str) else "<NOW number>"
        return v

    def text(self, t):
        u = urllib.parse.urlsplit(self.base)
        for host in {u.netloc, f"localhost:{u.port}", f"127.0.0.1:{u.port}"}:
            t = t.replace(host, "(BASE)")  # no angle brackets: it may be XML
        for m in self.case.get("mask", []):
            t = re.sub(m["re"], m["to"], t)
        return t

    def json(self, v, key=None):
        if isinstance(v, dict):
            out = {k: self.json(x, k) for k, x in v.items() if k != "registeredApplicationsEmpty"}
            if "versions__delta" in out and "/delta" in self.case["request"]["path"]:
                out["versions__delta"] = "<COUNTER>"
            if set(out) >= {"timestamp", "status", "error"}:
                out["timestamp"] = "<ISO time>"
            return out
        if isinstance(v, list):
            out = [self.json(x) for x in v]
            if key in ("application", "instance", "names", "availableTags"):
                out.sort(key=lambda x: json.dumps(
                    [x.get("name"), x.get("instanceId"), x.get("hostName"), x.get("app")] if isinstance(x, dict)
                    else x, sort_keys=True))
            return out
        return self.now(v)

    def xml(self, e, strict):
        kids = [self.xml(k, strict) for k in e if k.tag != "registeredApplicationsEmpty"]
        text = (e.text or "") if not kids else ""
        text = self.now(text)
        if e.tag == "versions__delta" and "/delta" in self.case["request"]["path"]:
            text = "<COUNTER>"
        if e.tag == "timestamp":
            text = "<ISO time>"
        order = {"application": 0, "instance": 1}
        if kids and (not strict or e.tag in ("metadata", "applications", "application")):
            head = [k for k in kids if k[0] not in order]
            tail = [k for k in kids if k[0] in order]
            if not strict or e.tag == "metadata":
                head.sort(key=repr)
            kids = head + sorted(tail, key=lambda k: (order[k[0]], repr([c for c in k[3] if c[0] in (
                "name", "instanceId", "hostName")]), repr(k)))
        return (e.tag, sorted(e.attrib.items()), text, kids)

    def body(self, data, ctype, strict=False):
        """-> comparable text"""
        t = self.text(data.decode("utf-8", "replace"))
        kind = self.case.get("kind")
        if kind == "page":
            t = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d [+-]\d{4}", "<time>", t)
            t = re.sub(r"[A-Z][a-z]{2} \d{1,2}, \d{4},? \d{1,2}:\d\d:\d\d\W[AP]M", "<time>", t)
            for name in ("total-avail-memory", "current-memory-usage", "num-of-cpus", "server-uptime", "Uptime",
                         "ipAddr", r"Renews \(last min\)"):
                t = re.sub(rf"(?m)^{name} \|.*$", f"{name} | <machine>", t)
            t = re.sub(r"(?m)^[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d \w+ \d{4}$", "<time>", t)
            lines = []
            for ln in t.split("\n"):  # the statuses of an application come in no order
                head, *groups = re.split(r"(?<= )(?=(?:UP|DOWN|STARTING|OUT_OF_SERVICE|UNKNOWN) \(\d+\) - )", ln)
                lines.append(head + " ".join(sorted(g.strip() for g in groups)))
            return "\n".join(lines)
        ct = (ctype or "").lower()
        try:  # by what it is, not by what it is called: the real server sometimes calls one the other
            v = self.json(json.loads(t))
            if kind == "status" and "error" not in v:
                v = self.shape(v)
            if kind == "names":
                v = self.keys(v)
            return json.dumps(v, indent=1, sort_keys=not strict, ensure_ascii=False)
        except ValueError:
            pass
        if t.lstrip().startswith("<") and "html" not in ct:
            try:
                v = self.xml(ET.fromstring(t), strict)
                return "\n".join(self.lines(self.xshape(v) if kind == "status" else v))
            except ET.ParseError:
                pass
        t = re.sub(r"\b\d{13}\b", lambda m: self.now(m.group()), t)
        return re.sub(r"\w{3} \w{3} \d\d \d\d:\d\d:\d\d \w+ \d{4}", "<time>", t)

    def shape(self, v):  # the server's own entry: which fields, not what is in them
        if isinstance(v, dict):
            return {k: self.shape(x) for k, x in v.items()}
        return type(v).__name__

    def keys(self, v):
        return {k: self.keys(x) for k, x in v.items() if k != "details"} if isinstance(v, dict) else type(v).__name__

    def xshape(self, v):
        return (v[0], [(k, "") for k, _ in v[1]], "", sorted((self.xshape(k) for k in v[3]), key=repr))

    def lines(self, v, d=0):
        tag, attrs, text, kids = v
        yield "  " * d + tag + "".join(f" {k}={x!r}" for k, x in attrs) + (f": {text}" if text else "")
        for k in kids:
            yield from self.lines(k, d + 1)


def media(ct, strict):
    if ct is None:
        return None
    ct = ct.lower().replace(" ", "")
    return ct if strict else ct.split(";")[0]


def differences(case, want, want_base, got, at, base, o):
    out = []
    if want.get("error"):  # the real server did not answer
        ok = got["status"] == 0 or 400 <= got["status"] < 500
        return [] if ok else [f"want no answer or a refusal, got {got['status']}"]
    if o.lenient_refusals and want["status"] in (400, 406, 415, 500) and got["status"] >= 400:
        return out
    if want["status"] != got["status"]:
        out.append(f"status: want {want['status']}, got {got['status']}")
    if o.status_only:
        return out
    comp = case.get("compare", {})
    lenient = case.get("error_body") == "tomcat" or o.lenient_errors and case.get("error_body") == "spring"
    wh, gh = want["headers"], got["headers"]
    if not lenient:
        a, b = media(header(wh, "Content-Type"), o.strict), media(header(gh, "Content-Type"), o.strict)
        if a != b and not (want["status"] >= 400 and comp.get("body") is False):
            out.append(f"Content-Type: want {a}, got {b}")
        a, b = header(wh, "Content-Encoding"), header(gh, "Content-Encoding")
        if a != b:
            out.append(f"Content-Encoding: want {a}, got {b}")
        a, b = header(wh, "Allow"), header(gh, "Allow")
        if a is not None and set(re.split(r"\s*,\s*", a)) != set(re.split(r"\s*,\s*", b or "")):
            out.append(f"Allow: want {a}, got {b}")
        a, b = header(wh, "Location"), header(gh, "Location")
        if a is not None and Norm(case, 0, want_base).text(a) != Norm(case, 0, base).text(b or ""):
            out.append(f"Location: want {a}, got {b}")
    if comp.get("body") is False or lenient or case.get("kind") == "static" or "sha256" in want:
        return out
    wb = get_body(want)
    wb = b"" if wb is None else wb
    gb = page_text(got["body"]).encode() if case.get("kind") == "page" and "html" in (
        header(gh, "Content-Type") or "") else got["body"]
    ct = header(wh, "Content-Type")
    x = Norm(case, case["at"], want_base).body(wb, ct, o.strict)
    y = Norm(case, at, base).body(gb, header(gh, "Content-Type"), o.strict)
    if x != y:
        d = list(difflib.unified_diff(x.split("\n"), y.split("\n"), "want", "got", lineterm="", n=1))
        out += ["body:"] + [ln[:300] for ln in d[:o.diff_lines]]
    return out


# ---- running a suite ------------------------------------------------------------------------------------------------
def now_ms():
    return int(time.time() * 1000)


class Server:
    def __init__(self, o, props):
        self.o, self.props, self.proc = o, props, None

    def __enter__(self):
        if not self.o.launch:
            self.base = self.o.base.rstrip("/")
            return self
        self.base = f"http://127.0.0.1:{self.o.port}"
        args = shlex.split(self.o.launch) + [f"--server.port={self.o.port}"] + [
            f"--{k}={v}" for k, v in self.props.items()]
        self.log = open(self.o.log, "ab")
        self.proc = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        until = time.time() + 120
        while time.time() < until:
            if self.proc.poll() is not None:
                raise SystemExit(f"the server ended with {self.proc.returncode}: see {self.o.log}")
            try:
                r = exchange(self.base, "GET", "/eureka/apps/READINESS-PROBE", {"Accept": "application/json"}, None, 5)
                if r["status"] in (200, 403, 404):
                    time.sleep(self.o.settle)
                    return self
            except OSError:
                pass
            time.sleep(0.2)
        self.__exit__()
        raise SystemExit("the server did not answer within 120 s")

    def __exit__(self, *a):
        if self.proc and self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
            try:
                self.proc.wait(30)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        if self.proc:
            self.log.close()


def clean(base, scenario):
    """Cancels what the scenario left, by the batch path, which reaches ids that no URL does."""
    items = [dict(appName=app, id=iid, action="Cancel", lastDirtyTimestamp=0) for app, iid in scenario["cleanup"]]
    if items:
        r = exchange(base, "POST", "/eureka/peerreplication/batch",
                     {"Accept": "application/json", "Content-Type": "application/json"},
                     json.dumps({"replicationList": items}).encode())
        if r["status"] != 200:
            for app, iid in scenario["cleanup"]:
                q = urllib.parse.quote
                exchange(base, "DELETE", f"/eureka/apps/{q(app, safe='')}/{q(iid, safe=':')}",
                         {"Accept": "application/json"}, None)


def send(base, case):
    if case.get("before_ms"):
        time.sleep(case["before_ms"] / 1000)
    q = case["request"]
    at = now_ms()
    return at, exchange(base, q["method"], q["path"], q["headers"], get_body(q), case.get("timeout_ms", 30000) / 1000)


def record_suite(suite, o):
    out = dict(suite=suite.name, about=suite.about, properties=suite.props, server=o.server_name,
               recorded=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), scenarios=[])
    n = 0
    with Server(o, suite.props) as srv:
        out["base"] = srv.base
        for s in suite.scenarios:
            sc = dict(name=s.name, about=s.about, cleanup=s.cleanup, cases=[])
            for c in s.cases:
                case = dict(id=c["id"], tier=c["tier"])
                for k in ("note", "kind", "before_ms", "mask", "compare", "timeout_ms"):
                    if c[k]:
                        case[k] = c[k]
                case["request"] = dict(method=c["method"], path=c["path"], headers=c["headers"],
                                       **put_body(c["id"], "req", c["body"]))
                at, r = send(srv.base, case)
                case["at"] = at
                body, ct = redact(r["body"]), header(r["headers"], "Content-Type") or ""
                resp = dict(status=r["status"], headers=r["headers"])
                if r.get("error"):
                    resp["error"] = r["error"]
                if case.get("kind") == "page" and "html" in ct:
                    resp.update(text_only=True, **put_body(c["id"], "res", page_text(body).encode()))
                elif case.get("kind") == "static" or (case.get("tier") == "spring" and len(body) > INLINE_MAX):
                    resp.update(length=len(body), sha256=hashlib.sha256(body).hexdigest())
                elif r["status"] >= 400 and body.lower().startswith(b"<!doctype html"):
                    case["error_body"] = "tomcat"  # the container refused the request line or headers
                    resp["length"] = len(body)
                elif r["status"] >= 400 and (b'"timestamp"' in body or b"<timestamp>" in body
                                             or b"Whitelabel" in body):
                    case["error_body"] = "spring"
                    resp.update(put_body(c["id"], "res", body))
                elif body:
                    resp.update(put_body(c["id"], "res", body))
                case["response"] = resp
                notes = normalise_notes(case, body, ct)
                if notes:
                    case["normalise"] = notes
                sc["cases"].append(case)
                n += 1
            clean(srv.base, sc)
            out["scenarios"].append(sc)
    os.makedirs(CASES, exist_ok=True)
    with open(os.path.join(CASES, suite.name + ".json"), "w") as f:
        json.dump(out, f, indent=1, ensure_ascii=True)
        f.write("\n")
    print(f"{suite.name}: {n} recorded", flush=True)
    return n


def redact(body):
    """No folder of this machine in the record (actuator's disk check names one)."""
    return re.sub(rb'"path":"/[^"]*/\.","', b'"path":"(folder)","', body)


def normalise_notes(case, body, ct):
    """Which of the README's rules touch this answer."""
    notes = []
    if re.search(rb"\b1[6-9]\d{11}\b", body) and any(
            abs(int(m) - case["at"]) < WINDOW_MS for m in re.findall(rb"\b\d{13}\b", body)):
        fields = sorted({m.decode() for m, v in re.findall(rb'[<"](\w+Timestamp)[>"]\s*:?\s*"?(\d{13})', body)
                         if abs(int(v) - case["at"]) < WINDOW_MS})
        notes.append("now: " + (", ".join(fields) or "numbers near the clock"))
    if b"versions__delta" in body and "/delta" in case["request"]["path"]:
        notes.append("counter: versions__delta")
    if b'"timestamp"' in body or b"<timestamp>" in body:
        notes.append("time: timestamp")
    if body.count(b"instanceId") > 1 or body.count(b"<application>") > 1:
        notes.append("order: applications, instances")
    if case.get("kind"):
        notes.append("kind: " + case["kind"])
    return notes


def write_index():
    import scenarios
    suites = []
    for name in (n for n in scenarios.SUITES if os.path.exists(os.path.join(CASES, n + ".json"))):
        d = load(name)
        cases = [c for s in d["scenarios"] for c in s["cases"]]
        tiers = {}
        for c in cases:
            tiers[c["tier"]] = tiers.get(c["tier"], 0) + 1
        suites.append(dict(name=name, about=d["about"], properties=d["properties"], file=f"cases/{name}.json",
                           server=d["server"], recorded=d["recorded"], scenarios=len(d["scenarios"]),
                           cases=len(cases), tiers=tiers))
    with open(os.path.join(HERE, "cases.json"), "w") as f:
        json.dump(dict(format=1, suites=suites, cases=sum(x["cases"] for x in suites)), f, indent=1)
        f.write("\n")


def suite_names():
    with open(os.path.join(HERE, "cases.json")) as f:
        return [s["name"] for s in json.load(f)["suites"]]


def load(name):
    with open(os.path.join(CASES, name + ".json")) as f:
        return json.load(f)


def check_suite(name, o):
    d = load(name)
    skip = set(filter(None, (o.skip_tier or "").split(",")))
    passed = failed = skipped = 0
    with Server(o, d["properties"]) as srv:
        for s in d["scenarios"]:
            whole = f"{name}/{s['name']}"
            if o.only and not any(fnmatch.fnmatch(c["id"], o.only) or fnmatch.fnmatch(whole, o.only)
                                  for c in s["cases"]):
                continue
            for c in s["cases"]:  # a scenario always runs whole: its cases build on each other
                at, got = send(srv.base, c)
                if c["tier"] in skip or (o.only and not (fnmatch.fnmatch(c["id"], o.only)
                                                         or fnmatch.fnmatch(whole, o.only))):
                    skipped += 1
                    continue
                diff = differences(c, c["response"], d["base"], got, at, srv.base, o)
                reason = next((r for pat, r in o.differ_list if fnmatch.fnmatch(c["id"], pat)), None)
                if reason is not None:
                    if diff:
                        passed += 1
                        continue
                    diff = [f"answers as the real server does, though it is listed to differ: {reason}"]
                if diff:
                    failed += 1
                    q = c["request"]
                    print(f"FAIL {c['id']} [{c['tier']}] {q['method']} {q['path'][:120]}"
                          + (f"\n     note: {c['note']}" if c.get("note") else ""))
                    for ln in diff:
                        print("     " + ln)
                else:
                    passed += 1
            clean(srv.base, s)
    print(f"{name}: {passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return passed, failed


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--base")
    p.add_argument("--launch")
    p.add_argument("--port", type=int, default=8761)
    p.add_argument("--record", action="store_true")
    p.add_argument("--check", action="store_true")
    p.add_argument("--list", action="store_true")
    p.add_argument("--index", action="store_true", help="write cases.json anew from cases/")
    p.add_argument("--suite", help="names, by comma; all with --launch, core with --base")
    p.add_argument("--only")
    p.add_argument("--strict", action="store_true")
    p.add_argument("--status-only", action="store_true")
    p.add_argument("--lenient-errors", action="store_true")
    p.add_argument("--lenient-refusals", action="store_true")
    p.add_argument("--skip-tier")
    p.add_argument("--differ", help="a file of 'case-id-or-pattern  # reason' lines: these must differ")
    p.add_argument("--diff-lines", type=int, default=30)
    p.add_argument("--server-name", default="Spring Boot 4.0.7, Spring Cloud Netflix 5.0.3, Eureka 2.0.6")
    p.add_argument("--log", default=os.devnull, help="where a launched server's output goes")
    p.add_argument("--settle", type=float, default=1.0, help="seconds between a launched server's first answer and "
                                                             "the first case")
    o = p.parse_args()
    sys.path.insert(0, HERE)
    o.differ_list = []
    if o.differ:
        with open(o.differ) as f:
            for ln in f:
                pat, _, why = ln.partition("#")
                if pat.strip():
                    o.differ_list.append((pat.strip(), why.strip() or "no reason given"))
    if o.list:
        for n in suite_names():
            d = load(n)
            print(n, "-", d["about"], "\n    " + " ".join(f"--{k}={v}" for k, v in d["properties"].items()))
        return 0
    if o.index:
        write_index()
        return 0
    if bool(o.base) == bool(o.launch) or o.record == o.check:
        p.error("one of --base and --launch, and one of --record and --check")
    if o.record:
        import scenarios
        names = o.suite.split(",") if o.suite else list(scenarios.SUITES) if o.launch else ["core"]
        for n in names:
            record_suite(scenarios.SUITES[n], o)
        write_index()
        return 0
    names = o.suite.split(",") if o.suite else suite_names() if o.launch else ["core"]
    ok = bad = 0
    for n in names:
        a, b = check_suite(n, o)
        ok, bad = ok + a, bad + b
    print(f"{ok} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
