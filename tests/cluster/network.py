"""Links between nodes that can be cut: each node in a network namespace of its own.

    with Network(3) as network:
        Node(..., address=network.addresses[0], prefix=network.prefix(0))
        network.cut(0, 1)        # what 0 sends to 1 is dropped, and nothing else
        network.unplug(2)        # 2 reaches nobody, and nobody reaches it
        network.heal()

Needs root, `ip` and `nsenter`; `Network.is_possible` says whether they are there.
"""
import itertools
import os
import shutil
import subprocess

_numbers = itertools.count(1)


def _ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Network:
    """A bridge on which this process and all nodes are; clients run beside it, outside of all
    namespaces, and lose whom `unplug` takes, but never a node by `cut`."""

    def __init__(self, count):
        number = next(_numbers)
        pid = os.getpid()
        self.name = f"n{pid % 100000}x{number}"
        self.subnet = f"10.{100 + pid % 100}.{(pid // 100) % 250 + number % 5}"
        self.addresses = [f"{self.subnet}.{2 + at}" for at in range(count)]
        self._blocked, self._unplugged = set(), set()

    @staticmethod
    def is_possible():
        if os.geteuid() or not (shutil.which("ip") and shutil.which("nsenter")):
            return False
        name = f"try{os.getpid()}"
        made = subprocess.run(["ip", "link", "add", name, "type", "bridge"],
                              capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", name], capture_output=True, check=False)
        return made.returncode == 0

    def _space(self, at):
        return f"{self.name}-{at}"

    def prefix(self, at):
        """Before the command of a node, so that it runs there."""
        return ["nsenter", f"--net=/run/netns/{self._space(at)}", "--"]

    def __enter__(self):
        try:
            _ip("link", "add", self.name, "type", "bridge")
            _ip("address", "add", f"{self.subnet}.1/24", "dev", self.name)
            _ip("link", "set", self.name, "up")
            for at, address in enumerate(self.addresses):
                space, outside = self._space(at), f"{self.name}v{at}"
                _ip("netns", "add", space)
                _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", space)
                _ip("link", "set", outside, "master", self.name, "up")
                _ip("-n", space, "link", "set", "lo", "up")
                _ip("-n", space, "address", "add", f"{address}/24", "dev", "eth0")
                _ip("-n", space, "link", "set", "eth0", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for at in range(len(self.addresses)):
            subprocess.run(["ip", "netns", "del", self._space(at)], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", self.name], capture_output=True, check=False)

    def cut(self, sender, receiver):
        """Drops what `sender` sends to `receiver`, silently."""
        if (sender, receiver) not in self._blocked:
            self._blocked.add((sender, receiver))
            _ip("-n", self._space(sender), "route", "add", "blackhole",
                f"{self.addresses[receiver]}/32")

    def unplug(self, node):
        """Drops all that the node sends and is sent, clients' requests too."""
        if node not in self._unplugged:
            self._unplugged.add(node)
            _ip("link", "set", f"{self.name}v{node}", "down")

    def heal(self):
        """All links work again."""
        for sender, receiver in self._blocked:
            _ip("-n", self._space(sender), "route", "del", "blackhole",
                f"{self.addresses[receiver]}/32")
        for node in self._unplugged:
            _ip("link", "set", f"{self.name}v{node}", "up")
        self._blocked, self._unplugged = set(), set()
