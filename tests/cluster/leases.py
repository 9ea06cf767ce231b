"""Scenarios of nodes and clients that come and go: leases that run out, a planned stop, a cluster that begins empty."""
import json
import threading

from nodes import equal, expect, instance, wait_for
from ours import CPU_S, HEALED_S, keys_of

EXPIRING = ["--eureka.server.enable-self-preservation=false", "--eureka.server.eviction-interval-timer-in-ms=500"]


def apps_of(node):
    """What a node lists, its peers' and its own registration aside."""
    return {k for k in node.content()[1] if not k.startswith("EUREKA-SERVER/")}


class Beats:
    """A client that beats at one node, twice a second, until the end of the block."""

    def __init__(self, node, one):
        self.node, self.one, self.over = node, one, threading.Event()
        self.thread = threading.Thread(target=self._run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def _run(self):
        while not self.over.wait(0.5):
            self.node.beat(self.one["app"], self.one["instanceId"], int(self.one["lastDirtyTimestamp"]))


def expired_while_away(cluster):
    """what ran out while a node was down is gone there too when it is back; who beats stays"""
    nodes = a, b, c = cluster.eurekads(3)
    for node in nodes:
        node.args += EXPIRING
    cluster.mesh()
    cluster.start()
    # a node that was down gives everybody a lease's grace: much longer than the wait below
    dead = [instance("LEASES", f"dead{n}", duration=40) for n in range(5)]
    alive, held = instance("LEASES", "alive", duration=40), instance("LEASES", "held", duration=600)
    for one in [*dead, alive, held]:
        a.register(one)
    a.set_status("LEASES", "dead0", "OUT_OF_SERVICE")
    equal(nodes, CPU_S, keys_of([*dead, alive, held]))
    with Beats(a, alive):
        c.kill()
        wait_for(lambda: apps_of(a) == apps_of(b) == {"LEASES/alive", "LEASES/held"}, 60 + CPU_S,
                 "the leases that nobody renews run out on the nodes that are up")
        c.start().ready()
        equal(nodes, HEALED_S + CPU_S, ["LEASES/alive", "LEASES/held"], keys_of(dead),
              "the node that was down has given up what ran out meanwhile")
    told = c.own("history?app=LEASES&instance=dead1&limit=1")
    last = (told.get("entries") or told.get("changes"))[0]
    expect("evicted" in json.dumps(last), f"its history says that the lease ran out: {last}")


def renewed_on_one_side(cluster):
    """who renews its lease on one side of a partition only is on both sides right after its end"""
    a, b = cluster.eurekads(2)
    for node in (a, b):
        node.args += EXPIRING
    links = cluster.linked()
    cluster.start()
    one, other = instance("LEASES", "one", duration=20), instance("LEASES", "other", duration=20)
    a.register(one)
    a.register(other)
    keys = keys_of([one, other])
    equal([a, b], CPU_S, keys)
    for link in links.values():
        link.set("cut")
    with Beats(b, one):
        wait_for(lambda: not apps_of(a), 30 + CPU_S, "both run out where nobody renews them")
        wait_for(lambda: apps_of(b) == {keys[0]}, 30 + CPU_S, "one is renewed on the other side")
    for link in links.values():
        link.set("fair")
    # nobody renews it any more: what b knows of it is enough for a
    wait_for(lambda: keys[0] in apps_of(a), HEALED_S + CPU_S, "it is on both sides after the partition")
    equal([a, b], 60, lacks=keys, why="it ends on both sides when its lease is over")


def planned_stop(cluster):
    """a node that is stopped tells its peers the last of it, and takes its own registration back"""
    a, b = cluster.eurekads(2)
    cluster.mesh()
    cluster.start()
    own = f"EUREKA-SERVER/{a.host}:eureka-server:{a.port}"
    servers = wait_for(lambda: {k for k in b.content()[1] if k.startswith("EUREKA-SERVER/") and a.host in k}, 60,
                       f"{b.name} lists {a.name} ({own})")
    for n in range(3):
        made = [instance("LAST", f"i{n}-{k}") for k in range(20)]
        for one in made:
            a.register(one)
        a.stop()
        expect(set(keys_of(made)) <= set(b.content()[1]), "what was registered last is at the peer when the node has ended")
        expect(not servers & set(b.content()[1]), "the peer does not list the node that was stopped")
        a.start().ready()
        equal([a, b], CPU_S, [*keys_of(made), *servers])


def empty_together(cluster):
    """nodes that begin with empty stores while clients register open together, with what all were told"""
    nodes = cluster.eurekads(3)
    links = cluster.linked()
    made = [instance("TOGETHER", f"i{n}") for n in range(9)]
    for link in links.values():
        link.set("hole")
    for node in nodes:
        node.start()
    for n, one in enumerate(made):
        node = nodes[n % 3]
        wait_for(lambda node=node, one=one: node.ask("apps/TOGETHER", "POST", {"instance": one})[0] == 204, 60,
                 f"{node.name} takes registrations before it answers reads")
    expect([node.ask("apps")[0] for node in nodes] == [403] * 3, "none answers reads before it has looked for a registry")
    for link in links.values():
        link.set("fair")
    for node in nodes:
        node.ready()
    equal(nodes, CPU_S, keys_of(made))


SCENARIOS = [expired_while_away, renewed_on_one_side, planned_stop, empty_together]
