"""Apache Cassandra 5.0 beside us: the class path that Maven resolves, and a node of it.

What the file interop/pom.xml names is resolved once for each of its contents, and kept below .test.
`Unavailable` says why it cannot be. Nothing here runs unless a suite or a tool asks for it.
"""
import os
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from node import ROOT, Client, free_address

INTEROP = ROOT / "tests" / "interop"
WORK = ROOT / ".test" / "interop"
SECONDS = 240

# What the program reaches into of the Java runtime.
EXPORTS = ["java.base/jdk.internal.misc", "java.base/jdk.internal.ref", "java.base/sun.nio.ch",
           "java.management.rmi/com.sun.jmx.remote.internal.rmi", "java.rmi/sun.rmi.registry",
           "java.rmi/sun.rmi.server", "java.sql/java.sql"]
OPENS = ["java.io", "java.lang", "java.lang.module", "java.lang.reflect", "java.math", "java.net",
         "java.nio", "java.util", "java.util.concurrent", "java.util.concurrent.atomic",
         "jdk.internal.loader", "jdk.internal.ref", "jdk.internal.reflect", "jdk.internal.math",
         "jdk.internal.module", "jdk.internal.util.jar", "sun.nio.ch"]

# Where things are, and who talks to whom: one node, alone.
PLACES = """\
cluster_name: tests
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
num_tokens: 16
storage_compatibility_mode: NONE
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: {address}
listen_address: {address}
rpc_address: {address}
start_native_transport: true
data_file_directories: ["{folder}/data"]
commitlog_directory: {folder}/commitlog
hints_directory: {folder}/hints
saved_caches_directory: {folder}/saved_caches
cdc_raw_directory: {folder}/cdc_raw
commitlog_sync: periodic
commitlog_sync_period: 10000ms
auto_snapshot: false
"""


class Unavailable(Exception):
    """The class path cannot be resolved here."""


def call(command, **facts):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=SECONDS, check=False, stdin=subprocess.DEVNULL, **facts)


def class_path():
    """The jars of Cassandra and all that it needs."""
    WORK.mkdir(parents=True, exist_ok=True)
    path, pom = WORK / "classpath", INTEROP / "pom.xml"
    if not path.exists() or path.stat().st_mtime < pom.stat().st_mtime:
        try:
            done = call(["mvn", "-q", "-B", "-f", pom, "dependency:build-classpath",
                         f"-Dmdep.outputFile={path}.new"])
        except subprocess.TimeoutExpired as late:
            raise Unavailable("Maven does not answer") from late
        if done.returncode:
            raise Unavailable("Maven cannot resolve cassandra-all: " + done.stdout[-300:])
        Path(f"{path}.new").rename(path)
    return path.read_text().strip()


def version_of(jars):
    return next(part.rsplit("cassandra-all-", 1)[1].removesuffix(".jar")
                for part in jars.split(":") if "cassandra-all-" in part)


def access():
    """Options of the virtual machine for what Cassandra reaches into."""
    return [*(f"--add-exports={name}=ALL-UNNAMED" for name in EXPORTS),
            *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENS),
            "--add-opens=jdk.management/com.sun.management.internal=ALL-UNNAMED"]


def serves(address):
    """Whether a CQL server is there and ready."""
    try:
        with socket.create_connection((address, 9042), 2) as stream:
            stream.settimeout(5)
            stream.sendall(bytes([4, 0, 0, 0, 5, 0, 0, 0, 0]))
            return stream.recv(5)[4:] == b"\x06"
    except OSError:
        return False


class CassandraNode(Client):
    """One server in a virtual machine, with a data directory that outlives it.

    `settings` are lines of cassandra.yaml besides PLACES, `machine` options of the virtual machine.
    """

    def __init__(self, settings="", machine=(), heap="1G", address=None, workdir=None):
        super().__init__(address or free_address())
        self.heap, self.machine, self.process = heap, list(machine), None
        self.class_path = class_path()
        self.version = version_of(self.class_path)
        self._temporary = None if workdir else tempfile.TemporaryDirectory(prefix="cassandra-")
        self.workdir = Path(workdir or self._temporary.name)
        self.log = self.workdir / "log"
        (self.workdir / "conf" / "triggers").mkdir(parents=True)
        (self.workdir / "conf" / "cassandra.yaml").write_text(
            PLACES.format(address=self.address, folder=self.workdir) + settings)

    def command(self):
        agents = [part for part in self.class_path.split(":")
                  if Path(part).name.startswith("jamm-")]
        return [os.environ.get("JAVA", "java"), f"-Xms{self.heap}", f"-Xmx{self.heap}", "-Xss256k",
                *self.machine, *[f"-javaagent:{path}" for path in agents],
                "-Djava.net.preferIPv4Stack=true", "-Djdk.attach.allowAttachSelf=true",
                "-Djava.security.manager=allow", "-Dio.netty.tryReflectionSetAccessible=true",
                "-Dio.netty.allocator.useCacheForAllThreads=true",
                "-Dio.netty.allocator.maxOrder=11",
                "-Dcassandra.skip_wait_for_gossip_to_settle=0",
                "-Dcassandra.superuser_setup_delay_ms=0",
                f"-Djava.io.tmpdir={self.workdir}",
                f"-Dcassandra.config=file://{self.workdir}/conf/cassandra.yaml",
                f"-Dcassandra.storagedir={self.workdir}", f"-Dcassandra.logdir={self.workdir}",
                f"-Dcassandra.triggers_dir={self.workdir}/conf/triggers",
                f"-Dlogback.configurationFile=file://{INTEROP}/logback.xml",
                *access(), "-cp", f"{self.workdir}/conf:{self.class_path}",
                "org.apache.cassandra.service.CassandraDaemon"]

    def start(self, seconds=600):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command(), cwd=self.workdir, stdout=log,
                                            stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + seconds
        while not serves(self.address):
            if self.process.poll() is not None or deadline < time.monotonic():
                self.process.kill()
                self.process.wait()
                text = self.log.read_text(errors="replace")
                raise RuntimeError(f"Cassandra does not serve:\n{text[-3000:]}")
            time.sleep(0.2)
        return self

    def stop(self, seconds=120):
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(seconds)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.disconnect()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self._temporary:
            self._temporary.cleanup()
