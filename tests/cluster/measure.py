"""Figures of a cluster: printed, never asserted. `tests/cluster/run.py measure`."""
import threading
import time

from nodes import Cluster, Eurekad, Java, READY_S, beats, equal, instance, pipelined, register_everywhere

SAMPLES = 60


def all_figures(options):
    for kind in (Eurekad, Java):
        with Cluster(f"measure-{kind.__name__.lower()}", options) as cluster:
            visible_at_peer(cluster, kind)
    with Cluster("measure-bytes", options) as cluster:
        bytes_per_heartbeat(cluster)


def visible_at_peer(cluster, kind):
    """How long after its acknowledgement a registration is seen at the other node, while 1,000 instances beat every 10 s."""
    a, b = cluster.add(kind), cluster.add(kind)
    cluster.mesh()
    cluster.start()
    made = [instance("LOAD", f"l{n}") for n in range(1000)]
    register_everywhere([a, b], made)
    equal([a, b], READY_S, [f"LOAD/l{n}" for n in range(1000)], among=[f"LOAD/l{n}" for n in range(1000)])
    stop = threading.Event()

    def beat():
        place = 0
        while not stop.wait(0.1):
            pipelined(a, beats(made[place:place + 10]), connections=1)
            place = (place + 10) % len(made)

    beater = threading.Thread(target=beat)
    beater.start()
    late = []
    try:
        for n in range(SAMPLES):
            a.register(instance("SEEN", f"s{n}"))
            at = time.monotonic()
            while b.ask(f"apps/SEEN/s{n}")[0] != 200:
                if time.monotonic() - at > 30:
                    break
            late.append((time.monotonic() - at) * 1000)
            time.sleep(0.05)
    finally:
        stop.set()
        beater.join()
    late.sort()
    print(f"visible at a peer, pair of {kind.__name__}, 1,000 instances beating: "
          f"p50 {late[len(late) // 2]:.0f} ms, p99 {late[int(len(late) * 0.99)]:.0f} ms", flush=True)


def bytes_per_heartbeat(cluster):
    """What a heartbeat costs between two of ours with 10,000 instances, beside one item per heartbeat."""
    a, b = cluster.eurekads(2)
    links = cluster.linked()
    cluster.start()
    made = [instance(f"APP-{n % 100}", f"host-{n}.example.com:app-{n % 100}:8080") for n in range(10_000)]
    register_everywhere([a, b], made)
    equal([a, b], READY_S, [])
    time.sleep(4)
    link = links[a, b]
    link.forget()
    rounds, place, sent = 30, 0, 0
    for _ in range(rounds):  # each instance once in 30 s
        started = time.monotonic()
        part = made[place:place + 334]
        sent += len(part)
        place += 334
        pipelined(a, beats(part), connections=2)
        time.sleep(max(0.0, 1 - (time.monotonic() - started)))
    time.sleep(2)
    total = link.seen.sent_bytes + link.seen.answered_bytes
    one = made[0]
    item = len('{"appName":"","id":"","lastDirtyTimestamp":,"status":"UP","action":"Heartbeat"},') \
        + len(one["app"]) + len(one["instanceId"]) + 13
    answer = len('{"statusCode":200},')
    print(f"replicated renewals of {sent} heartbeats in {link.seen.requests} requests: {total} bytes, "
          f"{total / sent:.1f} a heartbeat with all heads; one item a heartbeat: {item} and {answer} back, without heads "
          f"({(item + answer) * sent / total:.0f} times as much)", flush=True)
