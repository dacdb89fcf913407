"""What each test of ScyllaDB's suite `test/cluster` needs of a server, read from its source.

A test is a function with all that it calls: the helpers and fixtures of its file, and those that
the file takes from other modules of `test.cluster`. What that text names decides; nobody's memory
does.
"""
import ast
import functools
import re

# What a test may need besides several nodes that find each other, and the words that give it away.
# The order is that in which a table names the need of a test that has several.
WORDS = {
    "object storage": r"object_storage|s3_server|minio|\bs3\b|'gs'|/backup|\.restore\(|gcs",
    "error injection": r"inject_error|enable_injection|disable_injection|error_injection|"
                       r"inject_parameter|message_injection|enable_error|disable_error",
    "other releases": r"scylla_2025_1|switch_executable|get_scylla_\w+_executable|"
                      r"scylla_version_description",
    "Alternator": r"alternator|dynamodb",
    "encryption at rest": r"key_provider|encryption_at_rest|scylla_encryption_options|"
                          r"\w+_info_encryption|kmip|\bkms",
    "LDAP": r"\bldap",
    "vector store": r"vector_store",
    "logstor": r"logstor",
    "strong consistency": r"strongly[-_]consistent|strong_consistency|"
                          r"consistency = '(global|local)'",
    "views and indexes": r"materialized view|create (custom )?index|view_build|create_mv|"
                         r"add_index|view_updat|wait_for_view|wait_mv|\bmvs?\b",
    "change data capture": r"\bcdc|_cdc",
    "moving data": r"decommission|remove_?node|replace_?config|replace_cfg|\brebuild|move_tablet|"
                   r"add_tablet_replica|del_tablet_replica|tablet_balancing|tablet_migration|"
                   r"tablets/(move|repair|balancing)|\brepair\b|tablet_repair|keyspace_cleanup|"
                   r"cleanup_keyspace|cleanup_all|\bresize\b|tablet split|tablet merge|"
                   r"min_tablet_count|replace_dead|vnode_tablet|vnodes_to_tablets|load_and_stream|"
                   r"quiesce_topology|storage_mode|new_node\(|node_replace|node_add|replace_node",
}
# A change of where a keyspace has its replicas.
ALTERED = re.compile(r"alter keyspace(?!.{0,60}durable_writes).{0,200}replication", re.DOTALL)
# A node that joins when there is a keyspace.
JOINS = re.compile(r"(create keyspace|new_test_keyspace|create_ks|add_table|"
                   r"create_new_test_keyspace).*servers?_add\(", re.DOTALL)


class Module:
    """The definitions of a file, and the text that one of them depends on."""

    def __init__(self, root, path):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        self.root, self.defined, self.imported, self.others = root, {}, {}, []
        self.take(tree.body)

    def take(self, body):
        for node in body:
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.defined.setdefault(node.name, []).append(node)
                case ast.ClassDef():
                    self.take(node.body)
                    plain = [one for one in node.body if not isinstance(one, (
                        ast.FunctionDef, ast.AsyncFunctionDef))]
                    self.defined.setdefault(node.name, []).extend(plain)
                case ast.Assign(targets=[ast.Name(id=name)]):
                    self.defined.setdefault(name, []).append(node)
                case ast.ImportFrom(module="test.cluster", names=names):
                    self.others += [one.name for one in names if (
                        self.root / "test" / "cluster" / f"{one.name}.py").exists()]
                case ast.ImportFrom(module=str(module), names=names) if module.startswith(
                        "test.cluster"):
                    self.imported.update((one.asname or one.name, (module, one.name))
                                         for one in names)

    def other(self, name):
        """A module that this one names things of."""
        return opened(self.root, self.root / "test" / "cluster" / f"{name}.py")

    def text(self, name, seen):
        """The text of a definition and of all that it names, which `seen` has not yet."""
        if name in self.imported:
            module, name = self.imported[name]
            path = self.root.joinpath(*module.split(".")).with_suffix(".py")
            return opened(self.root, path).text(name, seen) if path.exists() else ""
        texts = []
        for node in self.defined.get(name, ()):
            if id(node) in seen:
                continue
            seen.add(id(node))
            text, names = spelt(node)
            texts.append(text)
            texts += [self.text(one, seen) for one in names
                      if one in self.defined or one in self.imported]
            for other in map(self.other, self.others):
                texts += [other.text(one, seen) for one in names if one in other.defined]
        return "\n".join(texts)


@functools.cache
def spelt(node):
    """The text of a definition, and the names in it."""
    text, names = ast.unparse(bare(node)), set()
    for one in ast.walk(node):
        match one:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                names.add(name)
    return text, sorted(names)


def bare(node):
    """A definition without what is said about it."""
    for one in ast.walk(node):
        body = getattr(one, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr) and isinstance(
                body[0].value, ast.Constant) and len(body) > 1:
            one.body = body[1:]
    return node


@functools.cache
def opened(root, path):
    return Module(root, path)


def of(checkout, file, function, parameters=""):
    """The needs of a test, in the order of [`WORDS`]; `file` is below test/cluster."""
    module = opened(checkout, checkout / "test" / "cluster" / file)
    text = f"{module.text(function, set())}\n{parameters}".lower()
    own = f"{text}\n{file}".replace("_test.py", "").lower()
    found = [need for need, words in WORDS.items()
             if re.search(words, own if need not in ("moving data",) else text)]
    if "moving data" not in found and (ALTERED.search(text) or JOINS.search(text)):
        found.append("moving data")
    return found
