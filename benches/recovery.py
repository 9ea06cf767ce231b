#!/usr/bin/env python3
"""How long a killed node takes to its first correct answer, and how much memory it has then.

usage: recovery.py [-n 100000] [--rounds 3] [--server 'COMMAND with {port} and {dir}']

Registers N instances, waits for a checkpoint, changes a tenth of them, kills the node with -9, and measures from the start
of the new process to the first `/eureka/apps/` whose hash code is the one from before the kill. The Java server forgets
everything, so there is nothing to compare with; its clients bring its registry back within 30 s.
"""
import argparse
import tempfile
import time

import common


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-n", type=int, default=100_000)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--server", default=f"{common.EUREKAD} --data-dir={{dir}} --server.port={{port}} "
                                       "--logging.level.root=warn --eurekad.checkpoint-interval=5s")
    o = p.parse_args()
    print(common.machine())
    dirty = int(time.time() * 1000)
    with tempfile.TemporaryDirectory(prefix="eurekad-bench-") as directory:
        with common.Server(o.server, directory + "/data") as server:
            server.start()
            seconds = common.load(server.port, o.n, o.n // 20, dirty)
            print(f"{o.n} instances registered in {seconds:.1f} s, "
                  f"resident {common.resident_mb(server.process.pid):.0f} MB")
            time.sleep(8)  # a checkpoint
            for round_ in range(o.rounds):
                common.load(server.port, o.n // 10, o.n // 20, dirty + round_ + 1)
                before, _ = common.hash_code(server.port)
                server.kill()
                begin = time.monotonic()
                first_answer = server.start()
                after, length = common.hash_code(server.port)
                correct = time.monotonic() - begin
                assert before == after, f"the hash code was {before} and is {after}"
                memory = common.resident_mb(server.process.pid)
                print(f"round {round_ + 1}: first answer after {first_answer:.2f} s, the whole registry ({length >> 20} MiB of "
                      f"JSON) after {correct:.2f} s, resident {memory:.0f} MB, {after}", flush=True)


if __name__ == "__main__":
    main()
