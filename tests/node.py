"""Nodes as tests see them: real processes on addresses of 127.0.0.0/8."""
import itertools
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def given_program():
    """The server that NEREID names now, or the development build. Benchmarks build theirs, and name it
    so, when this module is there already."""
    return os.environ.get("NEREID", str(ROOT / "target" / "debug" / "nereid"))


NEREID = given_program()
_numbers = itertools.count(1)
# Clusters of the driver that did not end: its threads wait for each other now and then when it is shut
# down while it opens connections. Then the process has to be ended by force.
STUCK = []


def free_address():
    """An address of its own for each node of this process, and of those that run beside it."""
    pid = os.getpid()
    number = next(_numbers)
    return f"127.{1 + (pid >> 8) % 200}.{pid % 256}.{1 + number % 250}"


def addresses_in_racks(count):
    """An address for each of so many nodes, which says that they are in racks of one data centre; of
    their own, as `free_address` gives them, and apart from those."""
    pid = os.getpid()
    first = 8 * (next(_numbers) % 31)
    assert count <= 8, count
    return [f"127.{201 + (pid >> 8) % 50}.{first + rack}.{pid % 256}" for rack in range(count)]


class Client:
    """Sessions of the Python driver with one address."""

    def __init__(self, address):
        self.address = address
        self.port = 9042
        self._clusters = []

    def connect(self, **facts):
        """A session of the Python driver; the cluster is closed with the node's context."""
        from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
        from cassandra.policies import WhiteListRoundRobinPolicy
        profile = ExecutionProfile(
            load_balancing_policy=WhiteListRoundRobinPolicy([self.address]), request_timeout=60)
        facts.setdefault("protocol_version", 4)
        cluster = Cluster([self.address], port=self.port,
                          execution_profiles={EXEC_PROFILE_DEFAULT: profile}, **facts)
        self._clusters.append(cluster)
        return cluster.connect()

    def connect_unextended(self, **facts):
        """As `connect`, but as a driver that knows no extension of the protocol."""
        from unittest.mock import patch
        from cassandra.protocol_features import ProtocolFeatures
        with patch.object(ProtocolFeatures, "parse_from_supported",
                          staticmethod(lambda supported: ProtocolFeatures())):
            return self.connect(**facts)

    def disconnect(self):
        for cluster in self._clusters:
            closing = threading.Thread(target=cluster.shutdown, daemon=True)
            closing.start()
            closing.join(30)
            if closing.is_alive():
                STUCK.append(cluster)
        self._clusters = []


class Node(Client):
    """One server process with a data directory that outlives it."""

    # Options that `command` gives.
    GIVEN = ("workdir", "rpc_address", "listen_address", "api_address", "prometheus_address", "smp",
             "overprovisioned", "developer_mode", "enable_user_defined_functions",
             "experimental_features")

    def __init__(self, *options, address=None, workdir=None, env=None, program=None, prefix=()):
        """`prefix`: the command that runs the program, if not itself, by becoming it."""
        super().__init__(address or free_address())
        self.prefix = list(prefix)
        self.options = [str(option) for option in options]
        self._temporary = None if workdir else tempfile.TemporaryDirectory(prefix="nereid-")
        self.workdir = Path(workdir or self._temporary.name)
        self.log = self.workdir / "log"
        self.env = env
        self.program = str(program or given_program())
        self.process = None

    def command(self):
        return [*self.prefix, self.program, "--workdir", str(self.workdir / "data"), "--rpc-address",
                self.address, "--listen-address", self.address, "--api-address", self.address,
                "--prometheus-address", self.address, "--smp", "2", "--overprovisioned",
                "--developer-mode", "1", "--enable-user-defined-functions", "1",
                "--experimental-features", "udf", *self.options]

    def begin(self):
        """Starts the process; where its log begins."""
        offset = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, env=self.env)
        return offset

    def start(self, seconds=30):
        """Starts the process and waits until it says that it serves."""
        self.wait_for_service(self.begin(), seconds)
        return self

    def wait_for_service(self, offset, seconds=30):
        self.wait_for_log("init - serving", offset, seconds)

    def wait_for_log(self, text, offset=0, seconds=30):
        deadline = time.monotonic() + seconds
        while True:
            log = self.log.read_bytes()[offset:].decode(errors="replace")
            if text in log:
                return log
            if self.process.poll() is not None:
                raise RuntimeError(f"the node ended with {self.process.returncode}:\n{log[-3000:]}")
            if deadline < time.monotonic():
                raise TimeoutError(f"no {text!r} within {seconds} s:\n{log[-3000:]}")
            time.sleep(0.01)

    def stop(self, seconds=30):
        """Asks the process to end, and returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def kill(self):
        """Ends the process as a power cut would, but for the kernel's own caches."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.disconnect()
        if self.is_running():
            self.kill()
        if self._temporary:
            self._temporary.cleanup()


def ephemeral(*options):
    """A throw-away node; (process, what it said about itself)."""
    process = subprocess.Popen([NEREID, "--ephemeral", *options], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(process.stderr.read())
    return process, json.loads(line)
