"""Running `nereid sstable` and `nereid types`."""
import json
import subprocess

from node import NEREID


class Result:
    def __init__(self, process):
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr

    def __repr__(self):
        return f"code {self.code}\n{self.out[-2000:]}\n{self.err[-2000:]}"


def run(operation, *words, cwd=None, env=None):
    command = [NEREID, "sstable", operation, *[str(word) for word in words]]
    return Result(subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env,
                                 timeout=120, check=False))


def types(*words):
    """What `nereid types` prints."""
    command = [NEREID, "types", *[str(word) for word in words]]
    return Result(subprocess.run(command, capture_output=True, text=True, timeout=120, check=False))


def ok(operation, *words, **facts):
    result = run(operation, *words, **facts)
    assert result.code == 0, result
    return result.out


def of_json(operation, *words, **facts):
    """What the operation says of the files, by path."""
    return json.loads(ok(operation, *words, **facts))["sstables"]


def one(operation, *words, **facts):
    """What the operation says of the only file."""
    (only,) = of_json(operation, *words, **facts).values()
    return only


def write(folder, schema, partitions, *words):
    """Writes partitions to a new SSTable; the path of its Data.db."""
    folder.mkdir(parents=True, exist_ok=True)
    schema_file, input_file = folder / "schema.cql", folder / "input.json"
    schema_file.write_text(schema)
    input_file.write_text(json.dumps(partitions))
    generation = ok("write", "--schema-file", schema_file, "--input-file", input_file,
                    "--output-dir", folder, *words).strip()
    (path,) = folder.glob(f"*-{generation}-*-Data.db")
    return path


def component(data, suffix):
    """Another component of the SSTable with this Data.db."""
    return data.with_name(data.name.replace("Data.db", suffix))
