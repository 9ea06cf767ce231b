"""Asks the server odd questions and compares its answers with those of the Java server.

usage: driver.py BASE_URL [--record]      e.g. http://127.0.0.1:8761/eureka , a fresh server with an empty registry

shapes.json  one instance, registered in 85 shapes: the status, and what a fetch then shows in JSON and XML
edges.txt    one line for each request that edges.sh sends: name, status, headers, start of the body
differ.txt   lines of 'shape/NAME  # reason' or 'edge/NAME  # reason', patterns allowed: these must differ, all else must not
Both were recorded from Spring Cloud Netflix 5.0.3 (eureka-core 2.0.6). --record writes them anew instead of comparing.
Times, the order of fields and elements, and the framework's own error pages are not compared. Exit status 0 only if all
the rest is as recorded. The server needs use-read-only-response-cache=false, since nothing waits for its caches.
"""
import fnmatch
import json
import pathlib
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ET

HERE = pathlib.Path(__file__).resolve().parent
APP = "/apps/TOL"
ERROR_PAGE = "(error page of the framework)"
NOW_WINDOW_MS = 15 * 60 * 1000


def call(base, method, path, body=None, headers=None):
    request = urllib.request.Request(base + path, method=method, data=body, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


# ---- shapes of a registration ---------------------------------------------------------------------------------------
def mask_times(value):
    """Replaces what is about now by `{now}`, as a number or in a text; times that the request brought stay."""
    now = time.time() * 1000
    if isinstance(value, dict):
        return {k: mask_times(v) for k, v in value.items()}
    if isinstance(value, list):
        return [mask_times(v) for v in value]
    if isinstance(value, str):
        return re.sub(r"\b\d{13}\b", lambda m: "{now}" if abs(int(m[0]) - now) < NOW_WINDOW_MS else m[0], value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value - now) < NOW_WINDOW_MS:
        return "{now}"
    return value


def ask_shape(base, shape):
    """Registers one shape, fetches it, cancels it: the shape with this server's answers in place of the recorded ones."""
    asked = {k: shape[k] for k in ("name", "content_type", "path", "body")}
    headers = {"Content-Type": shape["content_type"]}
    status, text = call(base, "POST", shape["path"], shape["body"].encode(), headers)
    asked["status"] = status
    if status != 204:
        asked["answer"] = ERROR_PAGE if "timestamp" in text else text
        return asked
    seen = {}
    for kind in ("json", "xml"):
        status, text = call(base, "GET", APP, headers={"Accept": f"application/{kind}"})
        seen[kind] = text if status == 200 else None
        asked[kind] = {"status": status} if status != 200 else json.loads(text) if kind == "json" else text
    for instance in json.loads(seen["json"])["application"]["instance"] if seen["json"] else []:
        own_id = instance.get("instanceId") or instance["hostName"]
        call(base, "DELETE", f"{APP}/{urllib.parse.quote(own_id, safe='')}")
    return mask_times(asked)


def comparable(key, value):
    """An answer without what may differ: the layout and the order of XML."""
    def tree(element):
        return (element.tag, sorted(element.attrib.items()), (element.text or "").strip(), sorted(map(tree, element)))
    if key != "xml" or not isinstance(value, str):
        return value
    try:
        return tree(ET.fromstring(value))
    except ET.ParseError:  # the Java server writes some metadata keys as they are, well-formed or not
        return re.sub(r">\s+<", "><", value).strip()


def compare_shape(want, got):
    keys = [k for k in ("status", "answer", "json", "xml") if not (k == "answer" and want.get(k) == ERROR_PAGE)]
    return [f"{k}: want {want.get(k)!r}\n{'':{len(k) + 2}}got  {got.get(k)!r}"
            for k in keys if comparable(k, want.get(k)) != comparable(k, got.get(k))]


# ---- edges: paths, methods, encodings -------------------------------------------------------------------------------
def parse_edges(text):
    """The lines of edges.sh by name: status, media type, the headers that matter, the first characters of the body."""
    edges = {}
    for line in text.splitlines():
        name, rest = line[:44].strip(), line[44:].strip()
        status, media, headers, body = (part.strip() for part in (rest + " ").split(" | ", 3))
        values = dict(re.findall(r"([A-Za-z-]+): ([^;]*)", headers))
        values = {k.lower(): v.strip() for k, v in values.items()}
        edges[name] = {
            "status": status,
            "media type": media.split(";")[0].lower(),
            "allow": sorted(filter(None, values.get("allow", "").split(","))),
            "content-encoding": values.get("content-encoding", ""),
            "location": values.get("location", ""),
            # as much as tells XML, JSON and HTML and their root apart; the rest is the golden cases' matter
            "body": "" if "content-encoding" in values else body[:14].lower(),
        }
    return edges


def compare_edge(want, got):
    # an error's page is the framework's own, and curl may show the last answer's body when there was none
    keys = [k for k in want if not (k in ("media type", "body") and (want["status"] >= "400" or want["status"] == "000"))]
    return [f"{k}: want {want[k]!r}, got {got[k]!r}" for k in keys if want[k] != got[k]]


def ask_edges(base):
    root = base.removesuffix("/eureka")
    return subprocess.run(
        ["bash", str(HERE / "edges.sh"), root], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
        timeout=300).stdout


# ---- all of it ------------------------------------------------------------------------------------------------------
def listed_to_differ():
    lines = (line.partition("#") for line in (HERE / "differ.txt").read_text().splitlines())
    return [(pattern.strip(), reason.strip()) for pattern, _, reason in lines if pattern.strip()]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    base, recording = sys.argv[1].rstrip("/"), "--record" in sys.argv[2:]
    shapes = json.loads((HERE / "shapes.json").read_text())
    asked = [ask_shape(base, shape) for shape in shapes]
    edges_text = ask_edges(base)
    if recording:
        (HERE / "shapes.json").write_text(json.dumps(asked, indent=1, ensure_ascii=False) + "\n")
        (HERE / "edges.txt").write_text(edges_text)
        return 0

    found = {f"shape/{want['name']}": compare_shape(want, got) for want, got in zip(shapes, asked)}
    edges = parse_edges(edges_text)
    for name, want in parse_edges((HERE / "edges.txt").read_text()).items():
        found[f"edge/{name}"] = compare_edge(want, edges[name]) if name in edges else ["was not asked"]

    failed = 0
    listed = listed_to_differ()
    for pattern, _ in listed:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in found):
            found[f"differ.txt: {pattern}"] = ["matches nothing"]
    for name, differences in found.items():
        reason = next((r for pattern, r in listed if fnmatch.fnmatchcase(name, pattern)), None)
        if reason is not None:
            differences = [] if differences else [f"is as recorded, though it is listed to differ: {reason}"]
        if differences:
            failed += 1
            print(f"FAILED {name}", *differences, sep="\n   ")
    print(f"{len(found) - failed} as expected, {failed} not")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
