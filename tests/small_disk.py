"""A node whose data is on a small file system of its own, that no other program sees."""
import contextlib
import os
import shutil
import subprocess

from cassandra import DriverException
from node import Node


class Unavailable(Exception):
    """No such file system can be mounted here."""


@contextlib.contextmanager
def small_disk(place, mebibytes):
    """A file system of its own at `place`, which only programs behind this prefix see."""
    enter = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
             f"mount -t tmpfs -o size={mebibytes}m tmpfs {place} && echo mounted && exec sleep inf"]
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        raise Unavailable("needs unshare and nsenter")
    with subprocess.Popen(enter, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as holder:
        try:
            if holder.stdout.readline() != b"mounted\n":
                raise Unavailable("no file system of its own can be mounted here")
            yield ["nsenter", "--preserve-credentials", "--user", "--mount", "--target",
                   str(holder.pid)]
        finally:
            holder.kill()


def put_on(node, inside, place):
    """The node has its data there; its log is elsewhere."""
    command = node.command

    def on_small_disk():
        words = command()
        at = words.index("--workdir")
        return [*inside, *words[:at + 1], f"{place}/data", *words[at + 2:]]

    node.command = on_small_disk


def node_on(inside, place, *options):
    """A node with its data there; its log is elsewhere."""
    node = Node("--commitlog-segment-size-in-mb", "4", "--commitlog-sync", "batch", *options)
    put_on(node, inside, place)
    return node


def write_until_refused(session, table, first, count=100_000):
    """Writes rows of 50 kB from key `first` on until three in a row are refused: the keys of those
    that were taken, and why others were not."""
    insert = session.prepare(f"INSERT INTO {table} (k, v) VALUES (?, ?) USING TIMEOUT 2s")
    taken, refusals = [], []
    for k in range(first, first + count):
        try:
            session.execute(insert, (k, os.urandom(50_000)))
            taken.append(k)
            refusals = []
        except DriverException as error:
            refusals.append(str(error))
            if len(refusals) == 3:
                return taken, refusals
    raise AssertionError("the disk was never full")
