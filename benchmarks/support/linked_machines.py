"""Two simulated machines: network namespaces with a cable between them, which `tc` slows down. Needs root.

    with LinkedMachines() as machines:
        machines.rate(50)                                       # Mbit/s each way; None: no limit
        sent = machines.run(lambda rank: ["zero", "train", ...], ranks=2)  # two ranks on each; bytes sent by the first

Ranks are numbered machine by machine. A rank finds RANK, ZERO_TOKEN and GLOO_SOCKET_IFNAME in its environment.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time

from support.training_run import ROOT

ADDRESSES = ["10.78.0.1", "10.78.0.2"]
LONGEST = 1800  # seconds; ends a run that hangs


class LinkedMachines:
    def __init__(self):
        self.names = [f"zero-slow-{end}-{os.getpid()}" for end in "ab"]
        self.cards = [f"zs{end}{os.getpid()}" for end in "ab"]

    @staticmethod
    def why_not():
        """Why there can be no such machines, with the remedy; empty if there can."""
        for program in ("ip", "tc"):
            if shutil.which(program) is None:
                return f"{program} is not on the PATH: apt-get install iproute2"
        return "" if os.geteuid() == 0 else "network namespaces need root: run it with sudo"

    def __enter__(self):
        try:
            self.make()
        except BaseException:
            self.__exit__()  # also after a SIGTERM, and without the second machine
            raise
        return self

    def make(self):
        for name in self.names:
            self.ip("netns", "add", name)
        self.ip(
            "link",
            "add",
            self.cards[0],
            "netns",
            self.names[0],
            "type",
            "veth",
            "peer",
            "name",
            self.cards[1],
            "netns",
            self.names[1],
        )
        for name, card, address in zip(self.names, self.cards, ADDRESSES):
            self.ip("-n", name, "addr", "add", f"{address}/24", "dev", card)
            for device in ("lo", card):
                self.ip("-n", name, "link", "set", device, "up")

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True)

    def rate(self, mbits):
        for name, card in zip(self.names, self.cards):
            tc = ["ip", "netns", "exec", name, "tc", "qdisc"]
            subprocess.run([*tc, "del", "dev", card, "root"], check=False, capture_output=True)
            if mbits is not None:
                subprocess.run(
                    [
                        *tc,
                        "add",
                        "dev",
                        card,
                        "root",
                        "tbf",
                        "rate",
                        f"{mbits}mbit",
                        "burst",
                        "64kb",
                        "latency",
                        "300ms",
                    ],
                    check=True,
                )

    def sent(self):
        """Bytes that the first machine has sent, with headers, as its network card counts them."""
        counter = f"/sys/class/net/{self.cards[0]}/statistics/tx_bytes"
        return int(
            subprocess.run(
                ["ip", "netns", "exec", self.names[0], "cat", counter], check=True, capture_output=True
            ).stdout
        )

    def run(self, command_of, ranks=1, is_enough=None):
        """Starts `ranks` processes on each machine; command_of(rank) is a command. A SIGTERM ends them when is_enough()
        is true. Raises with the output of a rank that failed."""
        before = self.sent()
        env = dict(os.environ, OMP_NUM_THREADS="1", ZERO_TOKEN="known to the ranks of a benchmark")
        with contextlib.ExitStack() as files:
            said = [files.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2 * ranks)]
            running = [
                subprocess.Popen(
                    [
                        "ip",
                        "netns",
                        "exec",
                        self.names[rank // ranks],
                        "env",
                        f"RANK={rank}",
                        *map(str, command_of(rank)),
                    ],
                    cwd=ROOT,
                    stdout=subprocess.DEVNULL,
                    stderr=said[rank],
                    env=env | {"GLOO_SOCKET_IFNAME": self.cards[rank // ranks]},
                )
                for rank in range(2 * ranks)
            ]
            try:
                was_enough = wait_for(running, is_enough)
            finally:
                for rank in running:
                    rank.kill()
                    rank.wait()
            failed = max(range(2 * ranks), key=lambda rank: running[rank].returncode)  # killed: below 0
            if any(rank.returncode for rank in running) and not was_enough:
                said[failed].seek(0)
                raise RuntimeError(
                    f"rank {failed} ended with {running[failed].returncode}: {said[failed].read()[-2000:]}"
                )
        return self.sent() - before


def wait_for(running, is_enough):
    """Waits until all processes have ended or one has failed. Returns whether is_enough() was true."""
    begin, asked = time.monotonic(), False
    while any(rank.poll() is None for rank in running) and time.monotonic() < begin + LONGEST:
        if not asked and any(rank.poll() not in (None, 0) for rank in running):
            time.sleep(2)  # gives the others time to print their reason
            return False
        if not asked and is_enough and is_enough():
            asked = True
            for rank in running:
                rank.send_signal(signal.SIGTERM)
        time.sleep(0.02)
    return asked
