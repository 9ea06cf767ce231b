"""Scenarios of clusters that are all ours: partitions, a peer that was away, a restart of everything, bad weather."""
import json
import random
import threading
import time

import harness
from nodes import (
    READY_S, Eurekad, Traffic, beats, dirty_now, equal, expect, free_port, instance, pipelined, register_everywhere,
    shuffled, wait_for,
)

HEALED_S = 5  # what the README promises: equal within that of the end of any partition
CPU_S = 25  # what a machine that is busy with other things may add to a wait that is no promise


def keys_of(instances):
    return [f"{i['app']}/{i['instanceId']}" for i in instances]


def peers_of(node):
    return list(node.health()["components"]["peers"]["details"].values())


def errors_of(node, link, class_):
    """Requests over a link that failed in this class."""
    text = harness.fetch(f"http://{node.host}:{node.port}/metrics")[1].decode()
    name = f'eurekad_peer_errors_total{{peer="{link.url()}",class="{class_}"}} '
    return float(next(line for line in text.splitlines() if line.startswith(name)).removeprefix(name))


def copy_before_reads(cluster):
    """a node restarted with an empty store copies everything before it answers reads"""
    a, b = cluster.eurekads(2)
    links = cluster.linked()
    cluster.start()
    made = [instance("KIND", "up"), instance("KIND", "down", "DOWN"), instance("KIND", "starting", "STARTING"),
            instance("KIND", "out", "OUT_OF_SERVICE"), instance("CENTER", "netflix", data_center="Netflix"),
            instance("CENTER", "i-0a", data_center="Amazon"), instance("CENTER", "i-0b", "DOWN", data_center="Amazon")]
    for one in made:
        a.register(one)
    a.register(instance("KIND", "held"))
    a.set_status("KIND", "held", "OUT_OF_SERVICE")
    keys = [*keys_of(made), "KIND/held"]
    equal([a, b], CPU_S, keys)
    b.kill()
    b.empty()
    links[b, a].set("hole")
    b.start()
    wait_for(lambda: b.ask("apps")[0] == 403, 60, "an empty node whose peer does not answer refuses reads with 403")
    expect(b.ask("apps/delta")[0] == 403, "it refuses deltas too")
    links[b, a].set("fair")

    def first_answer():
        status, body = b.ask("apps")
        if status == 403:
            return None
        expect(status == 200, f"the first answer is {status}")
        return json.loads(body)

    answer = wait_for(first_answer, 60, "it serves once its peer answers")
    found = {f"{app['name']}/{i['instanceId']}": i for app in answer["applications"]["application"]
             for i in app["instance"]}
    expect(set(keys) <= set(found), f"its first answer lacks {set(keys) - set(found)}")
    expect(found["KIND/held"]["overriddenStatus"] == "OUT_OF_SERVICE", "its first answer has the override")
    equal([a, b], CPU_S, keys)
    # and the override it copied is an override: a new registration does not undo it
    b.register(instance("KIND", "held"))
    expect(b.one("KIND", "held")[0] == "OUT_OF_SERVICE", "the copied override holds against a registration")


def partition(cluster):
    """a partition with writes on both sides heals within 5 s, and nothing cancelled comes back"""
    nodes = a, b, c = cluster.eurekads(3)
    links = cluster.linked()
    cluster.start()
    made = [instance("SPLIT", f"s{n}") for n in range(40)]
    for one in made:
        a.register(one)
    for n in (20, 21, 22, 23):
        a.set_status("SPLIT", f"s{n}", "OUT_OF_SERVICE")
    equal(nodes, CPU_S, keys_of(made))
    for weather in ("cut", "mute"):
        split(cluster, links, weather)
    expect(not cluster.panics(), f"panics in {cluster.panics()}")


def split(cluster, links, weather):
    a, b, c = cluster.nodes
    between = [link for (here, there), link in links.items() if (here is c) != (there is c)]
    # clients of both sides beat on all the time; a client that is told 404 by the node it beats at is not asked here
    for link in between:
        link.set(weather)
    stop = threading.Event()
    alive = [i for i in a.content()[1] if i.startswith("SPLIT/")]

    def beat():
        while not stop.wait(0.3):
            for node, n in ((a, "s0"), (c, "s1"), (c, "s30"), (b, "s31")):
                with_dirty = node.one("SPLIT", n)
                if with_dirty:
                    node.beat("SPLIT", n, with_dirty[2])

    beater = threading.Thread(target=beat)
    beater.start()
    try:
        tag = weather
        a.register(instance("SPLIT", f"new-a-{tag}"))
        c.register(instance("SPLIT", f"new-c-{tag}"))
        a.set_status("SPLIT", "s10", "DOWN" if tag == "cut" else "OUT_OF_SERVICE")
        c.set_status("SPLIT", "s11", "OUT_OF_SERVICE" if tag == "cut" else "DOWN")
        # lifted on either side, with and without a value
        lifted = ("s20", "s21") if tag == "cut" else ("s22", "s23")
        a.lift("SPLIT", lifted[0])
        c.lift("SPLIT", lifted[1], "UP")
        b.put_metadata("SPLIT", "s12", "side", f"b-{tag}")
        c.put_metadata("SPLIT", "s13", "side", f"c-{tag}")
        # the same instance on both sides: the newer version wins, or the later word
        a.put_metadata("SPLIT", "s14", "side", f"a-{tag}")
        c.register(instance("SPLIT", "s14", side=f"c-{tag}"))
        a.register(instance("SPLIT", "s15", "STARTING"))
        c.register(instance("SPLIT", "s15", "DOWN", dirty=dirty_now() + 10))
        a.set_status("SPLIT", "s16", "DOWN")
        c.set_status("SPLIT", "s16", "OUT_OF_SERVICE")
        # cancelled on one side, whatever the other side did with it before
        base = 0 if tag == "cut" else 4
        gone = [f"s{n}" for n in (base, base + 1, 30 + base, 31 + base)]
        c.set_status("SPLIT", gone[0], "OUT_OF_SERVICE")
        a.cancel("SPLIT", gone[0])
        c.cancel("SPLIT", gone[1])
        b.cancel("SPLIT", gone[2])
        c.cancel("SPLIT", gone[3])
        # cancelled on one side, and then registered anew on the other: it lives
        a.cancel("SPLIT", f"s{17 + (tag == 'mute')}")
        c.register(instance("SPLIT", f"s{17 + (tag == 'mute')}"))
        time.sleep(6)  # longer than every time-out between the nodes, so that all of them are in their pauses
        expect(a.content() != c.content(), "the two sides differ")
    finally:
        stop.set()
        beater.join()
    for link in between:
        link.set("fair")
    healed = time.monotonic()
    cancelled = [f"SPLIT/{i}" for i in gone]
    living = [k for k in alive if k not in cancelled]
    _, found = equal(cluster.nodes, HEALED_S,
                     [*living, f"SPLIT/new-a-{tag}", f"SPLIT/new-c-{tag}", f"SPLIT/s{17 + (tag == 'mute')}"], cancelled,
                     f"all nodes are equal within {HEALED_S} s of a partition's end ({weather})")
    print(f"   equal {time.monotonic() - healed:.1f} s after the end of a partition ({weather})", flush=True)
    expect(found["SPLIT/s14"][4] == (("side", f"c-{tag}"),), f"the newer registration wins: {found['SPLIT/s14']}")
    expect(found["SPLIT/s15"][0] == "DOWN", "the newer status wins")
    for n in lifted:
        expect(found[f"SPLIT/{n}"][:2] == ("UP", "UNKNOWN"), f"the override of {n} stays lifted: {found[f'SPLIT/{n}']}")
    for n, side in (("s12", "b"), ("s13", "c")):
        expect(found[f"SPLIT/{n}"][4] == (("side", f"{side}-{tag}"),), f"metadata written on one side: {n}")
    # of two overrides of one version neither is newer: which one holds is open, but it is one
    expect(found["SPLIT/s16"][1] in ("DOWN", "OUT_OF_SERVICE"), f"an override holds: {found['SPLIT/s16']}")
    # for as long as a comparison takes to come round twice nothing comes back
    end = time.monotonic() + 7
    while time.monotonic() < end:
        for node in cluster.nodes:
            again = [k for k in cancelled if k in node.content()[1]]
            expect(not again, f"{again} came back at {node.name}")
        time.sleep(0.2)


def catch_up(cluster):
    """a peer that was down for 20,000 changes of 500 instances is told about two items of each"""
    a, b = cluster.eurekads(2)
    links = cluster.linked()
    cluster.start()
    made = [instance("MANY", f"m{n}") for n in range(500)]
    register_everywhere([a, b], made)
    equal([a, b], CPU_S, keys_of(made))
    b.kill()
    changes = []
    for turn in range(40):
        for n in range(500):
            kind = (turn + n) % 4
            if kind == 0:
                changes.append(("PUT", f"apps/MANY/m{n}/status?value=OUT_OF_SERVICE"))
            elif kind == 1:
                changes.append(("DELETE", f"apps/MANY/m{n}/status"))
            else:
                changes.append(("PUT", f"apps/MANY/m{n}/metadata?turn={turn}"))
    statuses = pipelined(a, changes, connections=16)
    expect(set(statuses) == {200}, f"20,000 changes answer {set(statuses)}")
    links[a, b].forget()
    b.start().ready()
    equal([a, b], 30 + CPU_S, keys_of(made))
    # a comparison may have been quicker than the log; what the log still has to tell counts too
    wait_for(lambda: not any(p["lag_records"] for p in peers_of(a)), CPU_S, "the peer has everything")
    items = [i for i in links[a, b].seen.items if i[1] == "MANY"]
    expect(items, "the changes came over the link")
    expect(len(items) <= 1100, f"{len(items)} items for 500 changed instances")
    print(f"   {len(items)} items for 20,000 changes of 500 instances", flush=True)


def restart_all(cluster):
    """three nodes with 10,000 instances, all killed at once and started in any order, lose nothing"""
    nodes = cluster.eurekads(3)
    cluster.mesh()
    cluster.start()
    made = [instance(f"APP-{n % 100}", f"i{n}") for n in range(10_000)]
    register_everywhere(nodes, made)
    held = shuffled(made, 1)[:60]
    for n, one in enumerate(held):
        nodes[n % 3].set_status(one["app"], one["instanceId"], "OUT_OF_SERVICE" if n % 2 else "DOWN")
    overrides = {f"{i['app']}/{i['instanceId']}": ("OUT_OF_SERVICE" if n % 2 else "DOWN") for n, i in enumerate(held)}
    before = equal(nodes, 60, keys_of(made))
    lost = [k for k, status in overrides.items() if before[1][k][:2] != (status, status)]
    expect(not lost, f"{len(lost)} overrides are lost before the restart: {lost[:3]}")
    homes = {node: [i for n, i in enumerate(made) if n % 3 == place] for place, node in enumerate(nodes)}
    for node in nodes:
        node.kill()
    for place in random.sample(range(3), 3):
        nodes[place].start()
    answers = {}

    def beat_at(node):
        """The clients of one node, from the first moment at which it takes a connection, three rounds."""
        wait_for(lambda: harness.fetch(node.base + "/apps/NONE")[0] > 0, 120, f"{node.name} listens")
        answers[node] = [s for _ in range(3) for s in pipelined(node, beats(homes[node]), connections=4)]

    threads = [threading.Thread(target=beat_at, args=(node,)) for node in nodes]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for node in nodes:
        expect(node in answers, f"the clients of {node.name} were answered")
        others = [s for s in answers[node] if s != 200]
        expect(not others, f"{len(others)} heartbeats at {node.name} were answered {set(others)}")
    after = equal(nodes, 60, keys_of(made))
    lost = [k for k, status in overrides.items() if after[1][k][:2] != (status, status)]
    expect(not lost, f"{len(lost)} overrides are lost: {lost[:3]}")
    servers = {k for k in after[1] if k.startswith("EUREKA-SERVER/")}
    changed = [k for k in before[1] if k not in servers and before[1][k] != after[1].get(k)]
    expect(not changed, f"{len(changed)} instances changed: {changed[:3]}")
    expect(before[0] == after[0], f"hash {before[0]} became {after[0]}")


def bad_weather(cluster):
    """whatever a peer answers, the others hear everything, it is asked once a second at most, and it is made whole"""
    a, b, c = cluster.eurekads(3)
    links = cluster.linked()
    cluster.start()
    stormy, fair = links[a, b], links[a, c]
    a.register(instance("WEATHER", "held"))
    a.set_status("WEATHER", "held", "OUT_OF_SERVICE")
    equal(cluster.nodes, CPU_S, ["WEATHER/held"])
    for n, weather in enumerate(("html", "500", "503", "reset", "half", "miscount", "slow", "hole", "cut")):
        counted = {c: errors_of(a, stormy, c) for c in ("connect", "timeout", "broken", "status")}
        stormy.set(weather)
        stormy.forget()
        started = time.monotonic()
        for k in range(3):
            a.register(instance("WEATHER", f"{weather}-{k}"))
        a.cancel("WEATHER", f"{weather}-2")
        a.set_status("WEATHER", f"{weather}-1", "OUT_OF_SERVICE")
        equal([a, c], CPU_S, [f"WEATHER/{weather}-0", f"WEATHER/{weather}-1"], [f"WEATHER/{weather}-2"],
              f"the other peer hears of changes while one answers with {weather}")
        time.sleep(max(0.0, 2.5 - (time.monotonic() - started)))
        took = time.monotonic() - started
        seen = stormy.seen
        if weather not in ("miscount", "cut"):  # the one is taken as an answer, the other is no request
            most = 3 + took
            expect(seen.requests <= most, f"{seen.requests} requests in {took:.1f} s to a peer with {weather}")
        expect(seen.most_at_once <= 2, f"{seen.most_at_once} requests at once to a peer with {weather}")
        for class_ in {"html": ("broken",), "half": ("broken",), "miscount": ("broken",), "500": ("status",),
                       "503": ("status",), "hole": ("timeout",), "cut": ("connect",)}.get(weather, ()):
            wait_for(lambda: errors_of(a, stormy, class_) > counted.get(class_, 0), CPU_S,  # noqa: B023
                     f"{weather} is counted as {class_}")
        stormy.set("fair")
        equal(cluster.nodes, 10 + CPU_S, [f"WEATHER/{w}-0" for w in (weather,)], [f"WEATHER/{weather}-2"],
              f"all nodes are equal after {weather}")
    expect(not cluster.panics(), f"panics in {cluster.panics()}")
    expect(fair.seen.requests > 0, "the fair link was used")


def slow_peer(cluster):
    """a peer that answers in 3 s gets everything all the same"""
    a, b = cluster.eurekads(2)
    links = cluster.linked()
    cluster.start()
    links[a, b].set("slow", 3.0)
    made = [instance("SLOW", f"s{n}") for n in range(600)]  # more than two batches
    statuses = pipelined(a, [("POST", "apps/SLOW", {"instance": i}) for i in made])
    expect(set(statuses) == {204}, f"registrations answer {set(statuses)}")
    equal([a, b], 30 + CPU_S, keys_of(made))
    expect(links[a, b].seen.most_at_once <= 2, f"{links[a, b].seen.most_at_once} requests at once")


def double_id(cluster):
    """a node with a copied data directory is refused, and the log and the health page say so"""
    import shutil
    a, b = cluster.eurekads(2)
    cluster.mesh()
    a.peers = []
    a.start().ready()
    a.register(instance("TWIN", "t"))
    a.stop()
    shutil.copytree(a.data_dir, b.data_dir)
    cluster.mesh()
    cluster.start()

    def told():
        return all("node-id" in n.log.read_text(errors="replace") for n in (a, b)) \
            and all("node-id" in json.dumps(n.health()) for n in (a, b))

    wait_for(told, CPU_S, "both say that two nodes have one id, and what to do about it, in log and health")
    for node in (a, b):
        status = json.loads(node.ask("status")[1])["applicationStats"]
        other = b if node is a else a
        expect(other.url in status["unavailable-replicas"], f"{node.name} lists its twin as unavailable: {status}")
    expect(a.is_up() and b.is_up(), "both go on serving")


def noisy_client(cluster):
    """100 heartbeats a second for one id do not hold up what others change"""
    a, b = cluster.eurekads(2)
    links = cluster.linked()
    cluster.start()
    noisy = instance("NOISE", "n")
    a.register(noisy)
    equal([a, b], CPU_S, ["NOISE/n"])
    stop = threading.Event()
    beaten = [0]

    def beat():
        while not stop.wait(0.1):
            beaten[0] += len(pipelined(a, beats([noisy] * 10), connections=1))

    beater = threading.Thread(target=beat)
    beater.start()
    links[a, b].forget()
    started, late = time.monotonic(), []
    try:
        for n in range(20):
            at = time.monotonic()
            a.register(instance("NOISE", f"other-{n}"))
            wait_for(lambda: b.ask(f"apps/NOISE/other-{n}")[0] == 200, 10, "a change arrives")  # noqa: B023
            late.append(time.monotonic() - at)
    finally:
        stop.set()
        beater.join()
    took = time.monotonic() - started
    expect(beaten[0] > 20 * took, f"only {beaten[0]} heartbeats in {took:.1f} s")
    # one bad moment of the machine is not the server's
    expect(sorted(late)[-2] < 1, f"changes took {sorted(late)[-3:]} s")
    told = [i for i in links[a, b].seen.items if i[2] == "n"]
    expect(len(told) <= 3 + 2 * took, f"{len(told)} items for one lease in {took:.1f} s")


def credentials(cluster):
    """credentials in a service URL are sent as Basic, and shown nowhere"""
    a, b = cluster.eurekads(2)
    links = cluster.linked()
    link = links[a, b]
    a.peers = [link.url("alice:s3cr%40t@")]
    cluster.start()
    a.register(instance("SECRET", "s"))
    equal([a, b], CPU_S, ["SECRET/s"])
    sent = {h.get("authorization") or h.get("Authorization") for h in link.seen.headers}
    expect(sent == {"Basic YWxpY2U6czNjckB0"}, f"sent: {sent}")
    link.set("500")
    a.register(instance("SECRET", "t"))
    wait_for(lambda: "500" in json.dumps(a.health()), CPU_S, "the failure is shown in the health page")
    pages = {path: a.ask(path)[1].decode(errors="replace") for path in ("status", "apps")}
    root = f"http://{a.host}:{a.port}"
    for path in ("/", "/lastn", "/actuator/health", "/actuator/info"):
        pages[path] = harness.fetch(root + path)[1].decode(errors="replace")
    pages["status XML"] = a.ask("status", headers={"Accept": "application/xml"})[1].decode()
    log = a.log.read_text(errors="replace")
    pages["log"] = "\n".join(line for line in log.splitlines() if not line.startswith("$ "))  # ours: the command
    for name, text in pages.items():
        for secret in ("s3cr", "alice", "YWxpY2U6"):
            expect(secret not in text, f"{secret} is shown in {name}")
    expect(str(link.port) in pages["status"] and str(link.port) in pages["log"], "the peer is shown without them")


def holds(cluster):
    """a quarantine of one node holds on all, through a partition, drains and a restart; a drain ends on all"""
    a, b = cluster.eurekads(2)
    links = cluster.linked()
    cluster.start()
    for id_ in ("bad", "old", "free"):
        a.register(instance("HELD", id_))
    equal([a, b], CPU_S, ["HELD/bad", "HELD/old", "HELD/free"])
    split_link = [links[a, b], links[b, a]]
    for link in split_link:
        link.set("cut")
    a.own("quarantine/apps/HELD/bad?for=1h&reason=wrong%20answers", "POST")
    a.own("quarantine/apps/HELD/free?for=1h", "POST")
    a.own("quarantine/apps/HELD/unborn?for=1h", "POST")
    a.own("drain/apps/HELD/old?for=20s", "POST")
    # b has not heard of the quarantine
    b.own("drain/apps/HELD/bad?for=1h", "POST")
    for link in split_link:
        link.set("fair")

    def held_at(node, kind, id_):
        url = f"http://{node.host}:{node.port}/{kind}/apps/HELD/{id_}"
        return harness.fetch(url)[0] == 200

    for id_ in ("bad", "free", "unborn"):
        wait_for(lambda id_=id_: held_at(b, "quarantine", id_), HEALED_S + CPU_S, f"b knows of the quarantine of {id_}")
    wait_for(lambda: held_at(b, "drain", "old"), HEALED_S + CPU_S, "b knows of the drain")
    wait_for(lambda: held_at(a, "quarantine", "bad"), HEALED_S + CPU_S, "the drain of b does not end the quarantine")
    status, _ = harness.fetch(f"http://{b.host}:{b.port}/drain/apps/HELD/bad?for=1s", "POST")
    expect(status == 409, f"a drain of what is quarantined is refused, not {status}")
    equal([a, b], CPU_S, ["HELD/bad", "HELD/old"])
    expect(b.one("HELD", "bad")[0] == "OUT_OF_SERVICE", "what is quarantined at a is out of service at b")
    # b holds it by itself, whatever its clients do, also after a crash
    a.kill()
    b.kill()
    b.start()
    b.ready()
    b.cancel("HELD", "bad")
    for id_ in ("bad", "unborn"):
        b.register(instance("HELD", id_))
        expect(b.one("HELD", id_)[0] == "OUT_OF_SERVICE", f"{id_} comes back UP at b")
    expect(b.ask("apps/HELD/bad/status?value=UP", "PUT")[0] == 409, "an override UP is refused at b")
    b.own("quarantine/apps/HELD/free", "DELETE")
    wait_for(lambda: b.one("HELD", "old") is None, 60 + CPU_S, "b ends the drain although a is away")
    a.start()
    a.ready()
    equal([a, b], CPU_S, ["HELD/bad", "HELD/unborn", "HELD/free"], ["HELD/old"])
    wait_for(lambda: not held_at(a, "quarantine", "free"), HEALED_S + CPU_S, "a hears of the release")
    equal([a, b], CPU_S, ["HELD/bad", "HELD/unborn", "HELD/free"], ["HELD/old"])
    for node in (a, b):
        seen = [node.one("HELD", id_)[0] for id_ in ("bad", "unborn", "free")]
        expect(seen == ["OUT_OF_SERVICE", "OUT_OF_SERVICE", "UP"], f"{node.name} shows {seen}")
    expect(not cluster.panics(), f"panics in {cluster.panics()}")


def callers(cluster):
    """who asked for a change and why is in the history of every node, also of one that was away"""
    a, b = cluster.eurekads(2)
    cluster.mesh()
    cluster.start()
    for node in (a, b):
        node.ready()

    def ask(path, method, reason, body=None):
        status, _ = a.ask(path, method, body, {"X-Reason": reason, "User-Agent": "deployer/2"})
        expect(status in (200, 204), f"{method} {path} answers {status}")

    def changes(number, kinds):
        """What is done to an instance of each number at a, and what the history of b has to say of it."""
        for n, kind in enumerate(kinds):
            id_, reason = f"{number}-{n}", f"{kind} {number}"
            ask("apps/ASKED", "POST", reason, {"instance": instance("ASKED", id_)})
            if kind == "override-set":
                ask(f"apps/ASKED/{id_}/status?value=OUT_OF_SERVICE", "PUT", reason)
            elif kind == "metadata-updated":
                ask(f"apps/ASKED/{id_}/metadata?color=green", "PUT", reason)
            elif kind == "cancelled":
                equal([a, b] if b.is_up() else [a], CPU_S, [f"ASKED/{id_}"])
                ask(f"apps/ASKED/{id_}", "DELETE", reason)
            yield id_, reason

    def told(id_, reason):
        entries = b.own(f"history/apps/ASKED/{id_}")["entries"]
        return entries and entries[0]["reason"] == reason and entries[0]

    asked = list(changes("there", ("registered", "override-set", "metadata-updated", "cancelled")))
    for id_, reason in asked:
        entry = wait_for(lambda: told(id_, reason), CPU_S, f"b says why {id_} changed: {reason}")  # noqa: B023
        actor = entry["actor"]
        expect((entry["origin"], actor["user_agent"]) == ("peer", "deployer/2"), f"b says who asked: {entry}")
        expect(actor["address"] == "127.0.0.1" and actor["peer"], f"b says from where, and who passed it on: {actor}")
    for id_, hold in ((asked[0][0], "drain"), ("unborn", "quarantine")):
        a.own(f"{hold}/apps/ASKED/{id_}?for=1h&reason=to%20{hold}", "POST")
        entry = wait_for(lambda: told(id_, f"to {hold}"), CPU_S, f"b says why there is a {hold}")  # noqa: B023
        kind = f"{hold.removesuffix('e')}ed"
        wait_for(lambda: told(id_, f"to {hold}")["kind"] == kind, CPU_S, f"b has the {hold}")  # noqa: B023
        expect(entry["actor"]["address"] == "127.0.0.1", f"and from where: {entry}")
    b.kill()
    away = list(changes("away", ("registered", "override-set", "metadata-updated")))
    ask(f"apps/ASKED/{asked[0][0]}", "DELETE", "scaled in")
    b.start()
    b.ready()
    for id_, reason in [*away, (asked[0][0], "scaled in")]:
        wait_for(lambda: told(id_, reason), CPU_S, f"b says why {id_} changed while it was away: {reason}")  # noqa: B023


def nobody_to_copy_from(cluster):
    """an empty node that finds no peer to copy from says so wherever it is asked, and once in its log"""
    a, b = cluster.eurekads(2)
    cluster.mesh()
    a.start()

    def stays_closed():
        node = a.own("node")
        return node["peers"] and node["peers"][0]["error"] and node

    node = wait_for(stays_closed, READY_S, "it knows of its peer, and what is wrong with it")
    expect(node["reads"]["open"] is False and node["reads"]["opens_in_ms"] > 0, f"reads are closed: {node['reads']}")
    expect([p["peer"] for p in node["peers"]] == [b.url], f"it is no peer of itself: {node['peers']}")
    expect(not node["peers"][0]["reachable"], f"the peer cannot be reached: {node['peers']}")
    health = json.loads(harness.fetch(f"http://{a.host}:{a.port}/actuator/health")[1])["components"]
    expect(health["reads"]["status"] == "OUT_OF_SERVICE", f"health says it: {health}")
    expect(b.url in health["peers"]["details"], f"and knows of the peer: {health}")
    metrics = harness.fetch(f"http://{a.host}:{a.port}/metrics")[1].decode()
    expect(f'eurekad_peer_reachable{{peer="{b.url}"}} 0' in metrics, "and so do the metrics")
    time.sleep(3)
    said = [line for line in a.log.read_text().splitlines() if "no copy from" in line]
    expect(len(said) == 1, f"the log says it once: {said}")
    b.start()
    wait_for(lambda: a.own("node")["reads"]["open"], READY_S, "it opens once its peer is there")
    wait_for(lambda: a.own("node")["peers"][0]["reachable"], CPU_S, "and replicates to it")


def copy_cut_off(cluster):
    """a node that ended before it had a copy looks for one again, and does not open with what clients told it"""
    a, b = cluster.eurekads(2)
    links = cluster.linked()
    a.start()
    b.start()
    for node in (a, b):
        node.ready()
    made = [instance(f"CUT-{n % 7}", f"i{n}") for n in range(700)]
    register_everywhere([a], made)
    b.kill()
    b.empty()
    for link in links.values():
        link.set("hole")
    b.start()
    mine = instance("CUT-MINE", "mine")
    wait_for(lambda: b.ask("apps/CUT-MINE", "POST", {"instance": mine})[0] == 204, 60, "it takes registrations")
    expect(b.ask("apps")[0] == 403, "and answers no reads")
    b.kill()
    b.start()
    wait_for(lambda: b.ask("apps/CUT-MINE/mine")[0] == 200, 60, "it is back with what it was told")
    time.sleep(2)
    expect(b.ask("apps")[0] == 403, "it still answers no reads")
    # only the way to its peer: what it has then, it has copied
    links[b, a].set("fair")
    b.ready()
    lacking = set(keys_of([*made, mine])) - set(b.content()[1])
    expect(not lacking, f"its first answer lacks {len(lacking)}: {list(lacking)[:3]}")
    for link in links.values():
        link.set("fair")
    equal([a, b], CPU_S, keys_of([*made, mine]))
    b.kill()
    for link in links.values():
        link.set("hole")
    b.start().ready()
    lacking = set(keys_of(made)) - set(b.content()[1])
    expect(not lacking, f"once it has opened, it opens at once, alone: {list(lacking)[:3]}")


def dead_peer(cluster):
    """new nodes tell each other what clients tell them while a listed node is dead, and open without it"""
    nodes = a, b = cluster.eurekads(2)
    dead = f"http://127.0.0.9:{free_port('127.0.0.9')}/eureka/"
    for node in nodes:
        node.peers = [a.url, b.url, dead]
        node.start()
    one = instance("NEW", "n1")
    wait_for(lambda: a.ask("apps/NEW", "POST", {"instance": one})[0] == 204, 60, "it takes registrations")
    wait_for(lambda: b.beat("NEW", "n1", one["lastDirtyTimestamp"]) == 200, CPU_S, "its client can go to the other one")
    expect([node.ask("apps")[0] for node in nodes] == [403] * 2, "neither answers reads: the third may have a registry")
    # the configured wait is five minutes
    for node in nodes:
        node.ready(120)
    equal(nodes, CPU_S, ["NEW/n1"])


SCENARIOS = [copy_before_reads, copy_cut_off, dead_peer, partition, catch_up, restart_all, bad_weather, slow_peer, double_id, noisy_client,
             credentials, holds, callers, nobody_to_copy_from]
