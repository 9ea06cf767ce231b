"""Scenarios of peers that are not as they should be: one that floods with nonsense, lists that go in circles."""
import gzip
import http.client
import json
import os
import pathlib
import threading
import time

import harness
from nodes import beats, equal, expect, free_port, instance, pipelined, register_everywhere, wait_for
from ours import CPU_S, keys_of
from proxy import Link

MEBI = 1 << 20
GROWTH = 384 * MEBI  # bodies in flight may take 128 MiB, what is made of them some more; nonsense that stays would be GiB


def batch(items):
    return json.dumps({"replicationList": items}).encode()


def nonsense():
    """Bodies that no peer sends: {name: (headers, body)}."""
    def item(n, action="Cancel", **more):
        return {"appName": "NONSENSE", "id": f"n{n}", "action": action} | more

    def wrong(n, **more):
        one = instance("NONSENSE", f"n{n}") | more
        return item(n, "Register", instanceInfo={k: v for k, v in one.items() if v is not None})

    long = batch([wrong(n, hostName=None, metadata={"k": "x" * 8000}) for n in range(900)])
    bodies = {
        "a page": b"<html><body>It works!</body></html>",
        "broken at its end": long[:-3],
        "nobody's instances, and long": long,
        "many items": batch([item(n) for n in range(100_000)]),
        "too long": b" " * (11 * MEBI),
        "unknown actions": batch([item(n, "Explode") for n in range(250)]),
        "instances that are none": batch([wrong(n, app="OTHER") for n in range(100)]
                                         + [wrong(n, hostName=None) for n in range(100)]
                                         + [wrong(n, dataCenterInfo=None) for n in range(50)]),
        "deep": b'{"replicationList":' + b"[" * 100_000,
        "numbers": batch(list(range(5000))),
        "unknown ids": batch([item(n, action, status="UP", lastDirtyTimestamp=n) for n in range(50)
                              for action in ("Heartbeat", "StatusUpdate", "DeleteStatusOverride", "Cancel")]),
        "no JSON": bytes(range(256)) * 4000,
    }
    found = {name: ({}, body) for name, body in bodies.items()}
    found["packed"] = ({"Content-Encoding": "gzip"}, gzip.compress(b" " * (64 * MEBI)))
    return found


def memory_of(node):
    """Bytes of the process in RAM: (now, most that it ever was)."""
    lines = pathlib.Path(f"/proc/{node.proc.pid}/status").read_text().splitlines()
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith(("VmRSS", "VmHWM"))}
    return kib["VmRSS"] * 1024, kib["VmHWM"] * 1024


def metric(node, name):
    """A figure of a node, all labels together: those whose labels hold every word of the name behind a blank."""
    family, *labels = name.split(" ")
    text = harness.fetch(f"http://{node.host}:{node.port}/metrics")[1].decode()
    lines = [line for line in text.splitlines() if line.split("{")[0].split(" ")[0] == family]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(label in line for label in labels))


def flood(cluster):
    """a flood of nonsense batches refuses no heartbeat, holds up no peer, stays nowhere"""
    a, b = cluster.eurekads(2)
    cluster.linked()
    cluster.start()
    clients = [instance("CALM", f"c{n}") for n in range(50)]
    for one in clients:
        a.register(one)
    equal([a, b], CPU_S, keys_of(clients))
    bodies = nonsense()
    statuses, broken = {}, []

    def one(name):
        headers, body = bodies[name]
        connection = http.client.HTTPConnection(a.host, a.port, timeout=60)
        try:
            head = {"Content-Type": "application/json", "Accept": "application/json"} | headers
            connection.request("POST", "/eureka/peerreplication/batch/", body, head)
            answer = connection.getresponse()
            answer.read()
            statuses.setdefault(name, set()).add(answer.status)
        except (OSError, http.client.HTTPException) as e:
            broken.append((name, e))  # refused before all of it was read
        finally:
            connection.close()

    for name in bodies:  # each once, so that what stays would be there before the flood
        one(name)
    before, _ = memory_of(a)

    def send(first):
        names = list(bodies)
        for n in range(3 * len(names)):
            one(names[(first + n) % len(names)])

    floods = [threading.Thread(target=send, args=(2 * n,)) for n in range(6)]
    stop, beaten = threading.Event(), []

    def beat():
        while not stop.is_set():
            beaten.extend(pipelined(a, beats(clients), connections=2))

    beater = threading.Thread(target=beat)
    for thread in [*floods, beater]:
        thread.start()
    told = []
    try:
        while any(thread.is_alive() for thread in floods) or len(told) < 6:
            for here, there in ((a, b), (b, a)):
                new = instance("CALM", f"new-{len(told)}")
                here.register(new)
                wait_for(lambda: there.ask(f"apps/CALM/{new['instanceId']}")[0] == 200, 10 + CPU_S,  # noqa: B023
                         f"a change goes from {here.name} to {there.name} during the flood")
                told.append(new)
    finally:
        for thread in floods:
            thread.join()
        stop.set()
        beater.join()
    expect(beaten and set(beaten) == {200}, f"heartbeats during the flood are answered {set(beaten)}")
    for name, found in statuses.items():
        expect(found <= {200, 400, 408, 413, 503}, f"{name} is answered {found}")
    for reason in ("content", "size", "items"):
        count = metric(a, f'eurekad_batches_refused_total reason="{reason}"')
        expect(count >= 18, f"{count} batches are counted as refused for {reason}")
    after, most = memory_of(a)
    print(f"   {len(beaten)} heartbeats, {len(told)} changes; memory {before // MEBI} MiB before, {after // MEBI} after, "
          f"{most // MEBI} at most; {len(broken)} connections cut", flush=True)
    expect(most < before + GROWTH, f"memory went from {before} to {most} bytes")
    _, found = equal([a, b], CPU_S, keys_of([*clients, *told]))
    others = [k for k in found if not k.startswith(("CALM/", "EUREKA-SERVER/"))]
    expect(not others, f"nonsense is in the registry: {others[:3]}")


def circles(cluster):
    """in a ring of nodes, one of which lists itself under other names, nothing goes round"""
    nodes = a, b, c = cluster.eurekads(3)
    links = {}
    for here, there in ((a, b), (b, c), (c, a), (a, a), (b, b)):
        links[here, there] = Link(there.host, free_port(there.host), (there.host, there.port))
        here.peers.append(links[here, there].url())
    # its own URL, and another spelling of that
    a.peers += [a.url, a.url.replace("//127.0.0.1:", "//localhost:")]
    cluster.links += links.values()
    cluster.start()
    made = [instance("RING", f"r{n}") for n in range(30)]
    for n, one in enumerate(made):
        nodes[n % 3].register(one)
    equal(nodes, CPU_S, keys_of(made))
    for n, one in enumerate(made):
        node, id_ = nodes[(n + 1) % 3], one["instanceId"]
        if n % 3 == 0:
            node.set_status("RING", id_, "OUT_OF_SERVICE")
        elif n % 3 == 1:
            node.put_metadata("RING", id_, "turn", n)
        else:
            node.cancel("RING", id_)
    gone = keys_of(made[2::3])
    equal(nodes, CPU_S, [k for k in keys_of(made) if k not in gone], gone)

    def moved():
        return [metric(node, "eurekad_log_lsn") for node in nodes], \
            [sum(1 for item in link.seen.items if item[1] == "RING") for link in links.values()]

    # Comparisons and renewals between nodes go on as they always do; changes and batches must come to an end.
    def rests():
        seen = moved()
        time.sleep(5)  # two comparisons
        return moved() == seen

    wait_for(rests, 30 + CPU_S, lambda: f"log and batches come to rest: {moved()}")
    for node in nodes:
        logged = {}
        for entry in node.own("history/apps/RING?limit=1000")["entries"]:
            logged.setdefault(entry["instance"], []).append(entry["kind"])
        wrong = {i: k for i, k in logged.items() if len(k) > 2 or len(set(k)) != len(k)}
        expect(len(logged) == len(made) and not wrong, f"{node.name} has logged changes more than once: {wrong}")
    for node in (a, b):
        link = links[node, node]
        expect(link.seen.requests <= 2, f"{node.name} has asked itself {link.seen.requests} times")


def incompressible(n):
    """An instance whose description does not become shorter in gzip."""
    return instance(f"SLOW{n % 20}", f"s{n}", pad=os.urandom(400).hex())


def slow_link(cluster):
    """a first copy and a large difference go over links of 100 kB/s"""
    a, b = cluster.eurekads(2)
    cluster.linked()
    links = cluster.links
    a.args = ["--eureka.client.fetch-registry=false"]
    many = [incompressible(n) for n in range(2500)]  # a megabyte in gzip
    a.start()
    a.ready()
    register_everywhere([a], many[:1500])
    for link in links:
        link.rate = 100_000
    b.start()
    wait_for(lambda: b.ask("apps")[0] == 200, 120 + CPU_S, "the copy ends")
    _, found = b.content()
    missing = [k for k in keys_of(many[:1500]) if k not in found]
    expect(not missing, f"{len(missing)} instances were not copied")
    equal([a, b], CPU_S, keys_of(many[:1500]))
    for link in links:
        link.set("cut")
    register_everywhere([a], many[1500:])
    for one in many[:500]:
        b.put_metadata(one["app"], one["instanceId"], "turn", "b")
    for link in links:
        link.set("fair")
    equal([a, b], 120 + CPU_S, keys_of(many), why="over slow links")


SCENARIOS = [flood, circles, slow_link]
