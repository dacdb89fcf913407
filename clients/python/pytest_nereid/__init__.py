"""A throw-away Nereid node for tests.

A `Node` is a process of its own on free ports of the loopback address, with its data in a temporary
folder. The folder goes with the node, and the node goes with the process that started it, however
that ends.
"""
import json
import os
import shutil
import subprocess
import tempfile
import threading

START_SECONDS = 30
STOP_SECONDS = 30


class StartFailed(RuntimeError):
    """The node did not start; the message holds what it wrote to its log."""


def find_binary():
    """The program: what the environment variable NEREID names, else `nereid` of the PATH."""
    named = os.environ.get("NEREID")
    found = shutil.which(named or "nereid")
    if found is None:
        where = f"NEREID={named}" if named else "on the PATH"
        raise StartFailed(f"no nereid program {where}: install one, or set NEREID to its path")
    return found


class Node:
    """A running node. Use it as a context manager, or call `stop`.

    `options` are options of the command line, for example `"--smp=2"`.
    """

    def __init__(self, *options, binary=None):
        command = [binary or find_binary(), "--ephemeral", *options]
        # The log goes to a file: nobody reads it while the node runs, and a full pipe would stop it.
        with tempfile.TemporaryFile() as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log,
                                             stdout=subprocess.PIPE)
            line = self._first_line()
            if not line:
                self._process.wait()
                log.seek(0)
                text = log.read().decode(errors="replace")[-4000:]
                raise StartFailed(f"{' '.join(command)} did not start:\n{text}")
        facts = json.loads(line)
        self.host = facts["host"]
        self.port = facts["port"]
        self.shard_aware_port = facts["shard_aware_port"]
        self.api_port = facts["api_port"]
        self.pid = facts["pid"]
        self._clusters = []

    def _first_line(self):
        """The line in which the node names its ports; empty when it ended or is late."""
        late = threading.Timer(START_SECONDS, self._process.kill)
        late.start()
        try:
            return self._process.stdout.readline()
        finally:
            late.cancel()

    def connect(self, **arguments):
        """A session of the Python driver that is installed, scylla-driver or cassandra-driver.

        `arguments` go to its `Cluster`. `stop` closes the session."""
        from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
        from cassandra.policies import WhiteListRoundRobinPolicy
        if "execution_profiles" not in arguments:
            only = WhiteListRoundRobinPolicy([self.host])
            arguments["execution_profiles"] = {
                EXEC_PROFILE_DEFAULT: ExecutionProfile(load_balancing_policy=only)}
        cluster = Cluster([self.host], port=self.port, **arguments)
        self._clusters.append(cluster)
        return cluster.connect()

    def is_running(self):
        return self._process.poll() is None

    def stop(self):
        """Closes the sessions and ends the node. Returns its exit code."""
        while self._clusters:
            self._clusters.pop().shutdown()
        self._process.terminate()
        try:
            code = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._process.stdout.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
