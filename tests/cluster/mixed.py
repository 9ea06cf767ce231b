"""Scenarios with the original: eurekad and the Java server as peers of each other, and a client of both."""
import contextlib
import pathlib
import subprocess
import time

import harness
from nodes import (
    READY_S, Eurekad, Failed, Java, Traffic, dirty_now, equal, expect, free_port, instance, wait_for,
)
from proxy import Link

# The original sends what it has half a second after it has it, and the machine may be busy.
SEEN_S = 40


def two_and_java(cluster):
    """The three of most scenarios, started together: (ours, ours, the original)."""
    a, b, j = cluster.add(Eurekad), cluster.add(Eurekad), cluster.add(Java)
    cluster.mesh()
    cluster.start()
    return a, b, j


def mixed_mesh(cluster):
    """a change at any of two eurekad and one Java node is on all three, and Java lists ours as available"""
    nodes = a, b, j = two_and_java(cluster)
    own = [f"EUREKA-SERVER/{n.host}:eureka-server:{n.port}" for n in nodes]
    equal(nodes, READY_S, own, why="each node is registered on all")
    ids = {}
    for node in nodes:
        for case in ("plain", "held", "value", "meta", "gone", "again", "bounced"):
            ids[node, case] = f"{case}-{node.name}"
            node.register(instance("MIX", ids[node, case], case=case))
        node.register(instance("MIX", f"down-{node.name}", "DOWN"))
        node.register(instance("MIX", f"amazon-{node.name}", data_center="Amazon"))
    keys = [f"MIX/{id_}" for id_ in ids.values()]
    equal(nodes, SEEN_S, keys, why="registrations")
    # everything is changed at the node after the one that it was registered at
    for place, home in enumerate(nodes):
        other = nodes[(place + 1) % 3]
        for case in ("held", "value", "bounced"):
            other.set_status("MIX", ids[home, case], "OUT_OF_SERVICE")
        other.put_metadata("MIX", ids[home, "meta"], "color", "green")
        other.cancel("MIX", ids[home, "gone"])
        other.cancel("MIX", ids[home, "again"])
    gone = [f"MIX/{ids[n, c]}" for n in nodes for c in ("gone", "again")]
    _, found = equal(nodes, SEEN_S, [k for k in keys if k not in gone], gone, "overrides, metadata, cancels")
    for node in nodes:
        for case in ("held", "value", "bounced"):
            expect(found[f"MIX/{ids[node, case]}"][:2] == ("OUT_OF_SERVICE", "OUT_OF_SERVICE"), f"{case} is overridden")
        expect(("color", "green") in found[f"MIX/{ids[node, 'meta']}"][4], "the metadata is there")
    for place, home in enumerate(nodes):
        other = nodes[(place + 2) % 3]
        other.lift("MIX", ids[home, "value"], "UP")
        other.lift("MIX", ids[home, "bounced"])
        other.register(instance("MIX", ids[home, "again"], case="again"))
        # the original leaves UNKNOWN behind and sends the client away with its next heartbeat, to register
        beat_or_register(other, ids[home, "bounced"])
    _, found = equal(nodes, SEEN_S, [k for k in keys if "/gone" not in k], why="overrides lifted, registered again")
    for node in nodes:
        for case in ("value", "bounced", "again"):
            expect(found[f"MIX/{ids[node, case]}"][:2] == ("UP", "UNKNOWN"),
                   f"{case} is UP again: {found[f'MIX/{ids[node, case]}']}")
    available = wait_for(lambda: all(f"//{n.host}:" in j.available_replicas() for n in (a, b)) and j.available_replicas(),
                         SEEN_S, lambda: f"the original lists both as available: {j.available_replicas()}")
    expect(available.count("http") == 2, f"and nobody else: {available}")


def beat_or_register(node, id_):
    """One heartbeat of a client that registers again when it is told 404."""
    at = node.one("MIX", id_)
    if node.beat("MIX", id_, at[2] if at else dirty_now()) == 404:
        node.register(instance("MIX", id_, case="bounced"))


def crashes(cluster):
    """each of two eurekad and one Java node is killed and comes back under traffic, and nothing is lost"""
    nodes = a, b, j = two_and_java(cluster)
    statuses = ("UP", "UP", "DOWN", "STARTING", "OUT_OF_SERVICE")
    homes = []
    for n in range(30):
        home = nodes[n % 3]
        center = ("MyOwn", "Amazon", "Netflix")[n % 3 if n < 6 else 0]
        one = instance("CRASH", f"c{n}", statuses[n % 5], data_center=center, n=n)
        home.register(one)
        homes.append((home, one))
    keys = [f"CRASH/c{n}" for n in range(30)]
    a.set_status("CRASH", "c0", "OUT_OF_SERVICE")
    b.set_status("CRASH", "c1", "OUT_OF_SERVICE")
    held = ("CRASH/c0", "CRASH/c1")
    equal(nodes, SEEN_S, keys)
    with Traffic(nodes, homes) as traffic:
        for node in (a, b, j):
            traffic.after(1)
            node.kill()
            others = [n for n in nodes if n is not node]
            others[0].register(instance("CRASH", f"while-{node.name}"))
            others[1].put_metadata("CRASH", "c6", "while", node.name)
            keys.append(f"CRASH/while-{node.name}")
            # the original has nothing on a disk: its clients' heartbeats and those of the peers bring everything back
            found_again(node, others, homes, keys, traffic)
            _, found = equal(nodes, 90, keys, why=f"all are equal again after {node.name} was killed")
            for key in held:
                expect(found[key][:2] == ("OUT_OF_SERVICE", "OUT_OF_SERVICE"), f"{key} keeps its override: {found[key]}")
            lost = [n for n, _ in traffic.not_found if n in (a.name, b.name)]
            expect(not lost, f"clients were told 404 by {set(lost)}: {traffic.not_found[:5]}")
        # one of ours comes back without its data
        b.kill()
        b.empty()
        b.start().ready()
        lacking = set(keys) - set(b.content()[1])
        expect(not lacking, f"the first answer of an emptied node lacks {lacking}")
        equal(nodes, 60, keys, why="all are equal again after a node came back empty")
        expect(traffic.errors == 0, f"{traffic.errors} heartbeats found no node at all")


def found_again(node, others, homes, keys, traffic):
    node.start().ready()
    if isinstance(node, Java):
        # what was registered while it was away beats at one of ours from now on
        traffic.homes.append((others[0], instance_of(others[0], keys[-1])))
        for key in keys[30:-1]:
            traffic.homes.append((others[1], instance_of(others[1], key)))


def instance_of(node, key):
    app, id_ = key.split("/")
    return instance(app, id_, dirty=node.one(app, id_)[2])


class SpringClient:
    """The client of tests/clients/spring, with every node in its list, each over a link that counts."""

    def __init__(self, cluster, links):
        self.port = free_port("127.0.0.1")
        self.id = f"localhost:sample-client:{self.port}"
        self.log = pathlib.Path(cluster.logs / "client.log")
        with open(self.log, "wb") as out:
            self.proc = subprocess.Popen(
                ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-jar", str(cluster.client_jar),
                 f"--server.port={self.port}",
                 f"--eureka.client.service-url.defaultZone={','.join(link.url() for link in links)}",
                 "--eureka.instance.lease-renewal-interval-in-seconds=1",
                 "--eureka.instance.lease-expiration-duration-in-seconds=30",
                 "--eureka.client.registry-fetch-interval-seconds=1",
                 "--eureka.client.initial-instance-info-replication-interval-seconds=0",
                 "--eureka.client.eureka-server-connect-timeout-seconds=2",
                 "--eureka.client.eureka-server-read-timeout-seconds=2"],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        cluster.procs.append(self.proc)

    def discovers(self, service):
        status, body = harness.fetch(f"http://127.0.0.1:{self.port}/services")
        return status == 200 and f'"{service}"'.encode() in body

    def registrations(self):
        return self.log.read_text(errors="replace").count("registration status: 204")


def beats_on(link, client):
    """Heartbeats of the client that went over a link."""
    return sum(n for path, n in link.seen.paths.items() if client.id in path and "lastDirtyTimestamp" in path)


def spring_client(cluster):
    """a Spring client that loses its node goes on with another, and is never forgotten"""
    nodes = two_and_java(cluster)
    links = {n: Link(n.host, free_port(n.host), (n.host, n.port)) for n in nodes}
    cluster.links += links.values()
    client = SpringClient(cluster, list(links.values()))
    key = f"SAMPLE-CLIENT/{client.id}"
    wait_for(lambda: all(key in n.content()[1] for n in nodes), READY_S, "the client is registered on all nodes")
    wait_for(lambda: client.discovers("sample-client"), SEEN_S, "the client discovers itself")
    lost = []
    for _ in range(2):
        at = wait_for(lambda: next((n for n in nodes if n not in lost and beats_on(links[n], client) > 1), None),
                      SEEN_S, "the client beats at a node")
        for link in links.values():
            link.forget()
        at.kill()
        lost.append(at)
        left = [n for n in nodes if n not in lost]
        wait_for(lambda: sum(beats_on(links[n], client) for n in left) > 2, SEEN_S,  # noqa: B023
                 f"the client beats at another node once {at.name} is dead")
        expect(all(n.one("SAMPLE-CLIENT", client.id)[0] == "UP" for n in left), "the others list it as UP")
        expect(client.discovers("eureka-server"), "the client still discovers others")
    expect(client.proc.poll() is None, "the client lives")


def migration(cluster):
    """a cluster of two Java nodes becomes one of two eurekad, and no client is told 404"""
    old = cluster.add(Java), cluster.add(Java)
    new = cluster.add(Eurekad), cluster.add(Eurekad)
    cluster.mesh()
    for node in old:
        node.peers = [url for url in node.peers if url != node.url]
    homes = []
    for node in old:
        node.start()
    for node in old:
        node.ready()
    statuses = ("UP", "UP", "UP", "DOWN", "OUT_OF_SERVICE")
    for n in range(40):
        one = instance(f"MOVE-{n % 4}", f"m{n}", statuses[n % 5], n=n)
        old[n % 2].register(one)
        homes.append((old[n % 2], one))
    keys = [f"{i['app']}/{i['instanceId']}" for _, i in homes]
    old[0].set_status("MOVE-0", "m0", "OUT_OF_SERVICE")
    # the original has been told of its new peers, as its configuration would have it
    equal(old, SEEN_S, keys, among=keys)
    with Traffic([*old, *new], homes) as traffic:
        for node in new:
            node.start()
        for node in new:
            node.ready()
        equal([*old, *new], 60, keys, why="the new nodes have everything", among=keys)
        for place, node in enumerate(old):
            # the original says goodbye at another node; one that is stopped too soon after that tells nobody
            node.stop()
            left = [n for n in (*old, *new) if n.is_up()]
            equal(left, SEEN_S, lacks=[f"EUREKA-SERVER/{node.host}:eureka-server:{node.port}"], why=f"{node.name} is gone")
            # its clients go to the next URL of their list
            traffic.homes[:] = [(new[place] if home is node else home, one) for home, one in traffic.homes]
        traffic.after(3)
        gone = [f"EUREKA-SERVER/{n.host}:eureka-server:{n.port}" for n in old]
        _, found = equal(new, 30, keys, gone, "the new nodes have everything without the old ones")
        expect(found["MOVE-0/m0"][:2] == ("OUT_OF_SERVICE", "OUT_OF_SERVICE"), f"the override is kept: {found['MOVE-0/m0']}")
        for _, one in homes:
            key = f"{one['app']}/{one['instanceId']}"
            wanted = "OUT_OF_SERVICE" if key == "MOVE-0/m0" else one["status"]
            expect(found[key][0] == wanted, f"{key} was {wanted} and is {found[key][0]}")
        expect(not traffic.not_found, f"clients were told 404: {traffic.not_found[:5]}")
        expect(traffic.errors == 0, f"{traffic.errors} heartbeats found no node")


# Java nodes try to tell a peer something for 30 s, and then no more.
GIVES_UP_S = 40


def ours_and_java(cluster):
    """One of each, started together."""
    a, j = cluster.add(Eurekad), cluster.add(Java)
    cluster.mesh()
    cluster.start()
    return a, j


def missed_at_java(cluster):
    """what a Java node was told of while eurekad was away, and gave up telling it, eurekad learns when it is back"""
    a, j = nodes = ours_and_java(cluster)
    made = [instance("MISSED", case) for case in ("held", "meta", "gone", "kept", "plain")]
    for one in made:
        j.register(one)
    keys = [f"MISSED/{one['instanceId']}" for one in made]
    equal(nodes, SEEN_S, keys, among=keys)
    a.set_status("MISSED", "kept", "OUT_OF_SERVICE")
    a.cancel("MISSED", "gone")
    keys.remove("MISSED/gone")
    equal(nodes, SEEN_S, keys, ["MISSED/gone"], among=[*keys, "MISSED/gone"])
    a.kill()
    j.set_status("MISSED", "held", "OUT_OF_SERVICE")
    j.put_metadata("MISSED", "meta", "color", "green")
    time.sleep(GIVES_UP_S)
    a.start().ready()
    _, found = equal(nodes, SEEN_S, keys, ["MISSED/gone"], "eurekad has what it missed", among=[*keys, "MISSED/gone"])
    for case in ("held", "kept"):
        expect(found[f"MISSED/{case}"][:2] == ("OUT_OF_SERVICE", "OUT_OF_SERVICE"), f"{case} is overridden: {found}")
    expect(("color", "green") in found["MISSED/meta"][4], f"the metadata is there: {found}")
    expect(found["MISSED/plain"][:2] == ("UP", "UNKNOWN"), f"what was left alone is as it was: {found}")
    said = [line for line in a.log.read_text().splitlines() if "override set: MISSED/held" in line]
    expect(len(said) == 1, f"it is taken over once: {said}")


def java_restarted(cluster):
    """a Java node that was restarted has all instances again, whatever their status, without a heartbeat"""
    a, j = nodes = ours_and_java(cluster)
    made = [instance("BACK", status.lower(), status) for status in ("UP", "DOWN", "STARTING", "OUT_OF_SERVICE")]
    for one in [*made, instance("BACK", "held")]:
        a.register(one)
    a.set_status("BACK", "held", "OUT_OF_SERVICE")
    keys = [f"BACK/{one['instanceId']}" for one in made] + ["BACK/held"]
    before = equal(nodes, SEEN_S, keys, among=keys)
    j.kill()
    wait_for(lambda: "refused" in (a.own("node")["peers"][0]["error"] or ""), SEEN_S, "eurekad notices that it is gone")
    j.start().ready()
    after = equal(nodes, SEEN_S, keys, why="the Java node has everything again", among=keys)
    expect(before == after, f"as it was: {after}")


def java_cut_off(cluster):
    """after a cut a Java node brings nothing back and loses nothing, and all have what was said on either side"""
    a, b, j = nodes = cluster.eurekads(2) + [cluster.add(Java)]
    links = cluster.linked()
    cluster.start()
    made = {case: instance("CUT", case) for case in ("gone", "moved", "held", "lifted", "left", "left-later")}
    keys = [f"CUT/{case}" for case in made]
    for one in made.values():
        j.register(one)
    equal(nodes, SEEN_S, keys, among=keys)
    to_java, from_java = [links[a, j], links[b, j]], [links[j, a], links[j, b]]
    for case in ("left", "left-later"):
        # What is told of these beats later must not bring back what is cancelled in between.
        a.beat("CUT", case, made[case]["lastDirtyTimestamp"])
    for link in [*to_java, *from_java]:
        link.set("cut")
    j.cancel("CUT", "left")
    # The original keeps this beat for the others, and, told that nobody is there, would register it with them.
    j.beat("CUT", "gone", made["gone"]["lastDirtyTimestamp"])
    a.cancel("CUT", "gone")
    # This one comes again, to the node that cannot hear that it went.
    b.cancel("CUT", "moved")
    j.register(instance("CUT", "moved"))
    j.set_status("CUT", "held", "OUT_OF_SERVICE")
    a.set_status("CUT", "lifted", "OUT_OF_SERVICE")
    time.sleep(20)
    for link in [*to_java, *from_java]:
        link.set("fair")
    among, gone = keys, ["CUT/gone", "CUT/left"]
    keys = [key for key in among if key not in gone]
    found = equal(nodes, SEEN_S, keys, gone, "after a cut that it outlasts", among=among)[1]
    for case in ("held", "lifted"):
        expect(found[f"CUT/{case}"][:2] == ("OUT_OF_SERVICE", "OUT_OF_SERVICE"), f"{case} is overridden: {found}")
    # Longer than it keeps what it has to tell.
    for link in [*to_java, *from_java]:
        link.set("cut")
    j.set_status("CUT", "moved", "OUT_OF_SERVICE")
    j.cancel("CUT", "left-later")
    a.beat("CUT", "left-later", made["left-later"]["lastDirtyTimestamp"])
    time.sleep(GIVES_UP_S)
    for link in [*to_java, *from_java]:
        link.set("fair")
    gone.append("CUT/left-later")
    keys.remove("CUT/left-later")
    found = equal(nodes, SEEN_S, keys, gone, "after a cut that it gave up in", among=among)[1]
    expect(found["CUT/moved"][:2] == ("OUT_OF_SERVICE", "OUT_OF_SERVICE"), f"the word is known: {found}")
    # What stands before it goes on taking connections.
    j.kill()
    time.sleep(5)
    j.start().ready()
    after = equal(nodes, SEEN_S, keys, gone, "it has everything again", among=among)[1]
    expect(found == after, f"as it was: {after}")


def java_unheard(cluster):
    """what a Java node cannot tell, while it is told everything itself, is known all the same"""
    a, b, j = nodes = cluster.eurekads(2) + [cluster.add(Java)]
    links = cluster.linked()
    cluster.start()
    among = [f"MUTE/{case}" for case in ("held", "back", "meta", "gone", "again", "kept", "new")]
    for key in among[:-1]:
        j.register(instance(*key.split("/")))
    equal(nodes, SEEN_S, among[:-1], among=among)
    a.set_status("MUTE", "kept", "OUT_OF_SERVICE")
    equal(nodes, SEEN_S, among[:-1], among=among)
    # Its clock is known to a second: what it says earlier may be older than what was said here.
    time.sleep(1.2)
    for node in (a, b):
        links[j, node].set("cut")
    for case in ("held", "back"):
        j.set_status("MUTE", case, "OUT_OF_SERVICE")
    j.put_metadata("MUTE", "meta", "color", "green")
    for case in ("gone", "again"):
        j.cancel("MUTE", case)
    j.register(instance("MUTE", "new"))
    keys = [key for key in among if key not in ("MUTE/gone", "MUTE/again")]
    found = equal(nodes, SEEN_S, keys, ["MUTE/gone", "MUTE/again"], "while it cannot tell", among=among)[1]
    for case in ("held", "back", "kept"):
        expect(found[f"MUTE/{case}"][:2] == ("OUT_OF_SERVICE", "OUT_OF_SERVICE"), f"{case} is overridden: {found}")
    expect(("color", "green") in found["MUTE/meta"][4], f"the metadata is there: {found}")
    # What is said here then is later than what the Java node still lists as changed lately.
    a.lift("MUTE", "back", "UP")
    b.register(instance("MUTE", "again"))
    keys.append("MUTE/again")
    equal(nodes, SEEN_S, keys, ["MUTE/gone"], "what is said on the other side", among=among)
    time.sleep(GIVES_UP_S)
    for node in (a, b):
        links[j, node].set("fair")
    found = equal(nodes, SEEN_S, keys, ["MUTE/gone"], "when it can tell again", among=among)[1]
    expect(found["MUTE/back"][:2] == ("UP", "UNKNOWN"), f"what was lifted stays so: {found}")
    for node in (a, b):
        said = [line for line in node.log.read_text().splitlines() if "override set: MUTE/held" in line]
        expect(len(said) == 1, f"it is taken over once: {said}")


SCENARIOS = [mixed_mesh, crashes, spring_client, migration, missed_at_java, java_restarted, java_cut_off,
             java_unheard]
