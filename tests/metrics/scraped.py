"""The metrics of a node, read as Prometheus reads them."""
import urllib.parse
import urllib.request

from prometheus_client.parser import text_string_to_metric_families


def text(node, query=()):
    """What a node answers; `query` is a list of pairs."""
    url = f"http://{node.address}:9180/metrics?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return answer.read().decode()


def families(node, query=()):
    return list(text_string_to_metric_families(text(node, query)))


def samples(node, query=()):
    return [sample for family in families(node, query) for sample in family.samples]


def total(node, name, **labels):
    """The sum of all samples of a name with these labels."""
    wanted = name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
    query = [("__name__", f"{wanted}*")]
    found = [sample for sample in samples(node, query) if sample.name in (name, f"{name}_total")]
    return sum(sample.value for sample in found
               if all(sample.labels.get(key) == value for key, value in labels.items()))
