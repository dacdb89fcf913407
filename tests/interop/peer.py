"""Apache Cassandra's tools, by a class path that Maven resolves."""
from pathlib import Path

from cassandra_node import INTEROP as HERE
from cassandra_node import Unavailable, access, call, class_path, version_of

__all__ = ["Cassandra", "Unavailable"]


class Cassandra:
    """Programs in virtual machines of their own, with files below one folder."""

    def __init__(self, folder):
        self.folder = folder
        self.class_path = class_path()
        self.version = version_of(self.class_path)
        classes = folder / "classes"
        classes.mkdir(parents=True)
        done = call(["javac", "-nowarn", "-d", classes, "-cp", self.class_path,
                     HERE / "Interop.java"])
        assert done.returncode == 0, done.stderr
        self.class_path = f"{classes}:{self.class_path}"
        (folder / "conf" / "triggers").mkdir(parents=True)

    def _config(self, mode, form):
        path = self.folder / "conf" / f"{mode}-{form}.yaml"
        directories = "".join(f"{name}_directory: {self.folder / name}\n" for name in (
            "commitlog", "hints", "saved_caches", "cdc_raw"))
        path.write_text(
            "cluster_name: interop\n"
            f"storage_compatibility_mode: {mode}\n"
            "partitioner: org.apache.cassandra.dht.Murmur3Partitioner\n"
            "endpoint_snitch: SimpleSnitch\n"
            "seed_provider:\n"
            "  - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n"
            "    parameters:\n"
            "      - seeds: 127.0.0.1\n"
            "listen_address: 127.0.0.1\n"
            f"data_file_directories: ['{self.folder / 'data'}']\n"
            f"{directories}"
            "commitlog_sync: periodic\n"
            "commitlog_sync_period: 10000ms\n"
            f"sstable:\n  selected_format: {form}\n")
        return path

    def _run(self, mode, form, *words):
        command = ["java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                   "-Djava.security.manager=allow",
                   "-Dorg.apache.cassandra.disable_mbean_registration=true",
                   f"-Dcassandra.config=file://{self._config(mode, form)}",
                   f"-Dcassandra.storagedir={self.folder}",
                   f"-Dcassandra.logdir={self.folder}",
                   f"-Dcassandra.triggers_dir={self.folder / 'conf' / 'triggers'}",
                   f"-Dlogback.configurationFile=file://{HERE / 'logback.xml'}", *access()]
        done = call([*command, "-cp", self.class_path, "Interop", *words], cwd=self.folder)
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    def totals(self, data):
        """The totals of the counters of a file, as Cassandra reads them."""
        return [int(line) for line in self._run("NONE", "big", "totals", data).split()]

    def write(self, version, folder):
        """SSTables of a version, by CQLSSTableWriter: `folder/k/TABLE/*-Data.db`."""
        mode, form = {"nb": ("CASSANDRA_4", "big"), "oa": ("NONE", "big"),
                      "da": ("NONE", "bti")}[version]
        self._run(mode, form, "write", folder)

    def export(self, files):
        """What SSTableExport prints of each file, or what it complains of: (text, complaint)."""
        folder = self.folder / "exports"
        folder.mkdir(exist_ok=True)
        outs = [folder / str(number) for number in range(len(files))]
        pairs = zip(files, outs)
        (folder / "list").write_text("".join(f"{data}\t{out}\n" for data, out in pairs))
        # In this mode every version is read.
        self._run("NONE", "big", "export", folder / "list")
        return [(out.read_text(), Path(f"{out}.err").read_text()) for out in outs]
