"""DynamoDB Local beside us, by a folder of jars that Maven resolves, and kept below .test."""
import http.client
import json
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from node import ROOT

HERE = Path(__file__).resolve().parent
JARS = ROOT / ".test" / "dynamodb_oracle" / "jars"
MAIN = "software.amazon.dynamodb.services.local.main.ServerRunner"
SIGNED = ("AWS4-HMAC-SHA256 Credential=anyone/20260101/us-east-1/dynamodb/aws4_request, "
          "SignedHeaders=host;x-amz-date, Signature=0")


class Unavailable(Exception):
    """DynamoDB Local cannot be had here."""


def jars():
    """The folder of DynamoDB Local and all that it needs."""
    pom, mark = HERE / "pom.xml", JARS / ".complete"
    if mark.exists() and mark.stat().st_mtime >= pom.stat().st_mtime:
        return JARS
    shutil.rmtree(JARS, ignore_errors=True)
    JARS.mkdir(parents=True)
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies",
               "-DincludeScope=runtime", f"-DoutputDirectory={JARS}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as late:
        raise Unavailable("Maven does not answer") from late
    if done.returncode:
        raise Unavailable("Maven cannot resolve DynamoDB Local: " + done.stdout[-300:])
    # The library of SQLite is looked for by its plain name.
    for library in JARS.glob("libsqlite4java-linux-amd64-*.so"):
        shutil.copy(library, JARS / "libsqlite4java-linux-amd64.so")
    mark.touch()
    return JARS


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class DynamoDbLocal:
    """One server in a virtual machine of its own, with its data in memory."""

    def __init__(self):
        self.folder, self.address, self.port = jars(), "127.0.0.1", free_port()
        self.process = None

    def __enter__(self):
        command = ["java", "-Xmx512m", "-XX:+UseSerialGC", f"-Djava.library.path={self.folder}",
                   "-cp", f"{self.folder}/*", MAIN, "-port", str(self.port), "-inMemory",
                   "-sharedDb", "-disableTelemetry"]
        with tempfile.TemporaryFile() as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log)
        deadline = time.monotonic() + 60
        while not self.serves():
            if self.process.poll() is not None or deadline < time.monotonic():
                self.process.kill()
                raise RuntimeError("DynamoDB Local does not start")
            time.sleep(0.1)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def serves(self):
        try:
            socket.create_connection((self.address, self.port), 2).close()
            return True
        except OSError:
            return False


class Answer:
    """What a request was answered: a body, or the type and the sentence of an error."""

    def __init__(self, status, body):
        self.body = json.loads(body) if body else None
        self.status, self.error, self.message = status, None, None
        if status != 200:
            kind = (self.body or {}).get("__type", "no type")
            self.error = kind.rsplit("#", 1)[-1]
            self.message = self.body.get("message", self.body.get("Message"))

    def __str__(self):
        return f"{self.error}: {self.message}" if self.error else json.dumps(self.body)


class Door:
    """A connection to a server that speaks the API."""

    def __init__(self, address, port):
        self.place = (address, port)
        # What is to hold of each answer.
        self.check = lambda answer: None
        self.connection = http.client.HTTPConnection(address, port, timeout=60)

    def ask(self, operation, request):
        body = json.dumps(request)
        headers = {"Content-Type": "application/x-amz-json-1.0", "Authorization": SIGNED,
                   "X-Amz-Date": "20260101T000000Z",
                   "X-Amz-Target": f"DynamoDB_20120810.{operation}"}
        try:
            self.connection.request("POST", "/", body, headers)
            answer = self.connection.getresponse()
            return Answer(answer.status, answer.read())
        except (http.client.HTTPException, OSError):
            # What was sent may have been done; a run that meets this does not replay.
            self.connection = http.client.HTTPConnection(*self.place, timeout=60)
            raise
