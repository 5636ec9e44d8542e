"""Metrics of one application, in Prometheus's format."""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

_PATHS = frozenset(
    "/ /alternatives /corrections /documents /explain /healthz /info /metrics /openapi.json "
    "/translate".split()
)


class Metrics:
    """Counters and histograms in a registry that no other application shares."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._requests = Counter(
            "nmt_requests", "Requests, by path and status", ["path", "status"], registry=registry
        )
        self.sentences = Counter(
            "nmt_sentences",
            "Sentences, or segments of long ones, accepted: of texts and of documents",
            registry=registry,
        )
        self.documents = Counter(
            "nmt_documents", "Documents accepted, by format", ["format"], registry=registry
        )
        self._seconds = Histogram(
            "nmt_translate_seconds",
            "From the head of a translation request to the end of its answer",
            buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50),
            registry=registry,
        )
        self.batch_segments = Histogram(
            "nmt_batch_parts",
            "Sentences, or segments of long ones, per batch",
            buckets=[2**n for n in range(11)],
            registry=registry,
        )
        self.attentions = Counter(
            "nmt_attentions", "Texts accepted with attention", registry=registry
        )
        self.attention_seconds = Histogram(
            "nmt_attention_seconds", "Computing the attention of a sentence", registry=registry
        )
        self.queue_work = Gauge(
            "nmt_queue_work",
            "Work that waits for a batch or the Keras model",
            registry=registry,
        )

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """Count one request; all unknown paths count as one."""
        self._requests.labels(path if path in _PATHS else "other", str(status)).inc()
        if path == "/translate":
            self._seconds.observe(seconds)

    def render(self) -> bytes:
        """Return all values in Prometheus's text format."""
        return generate_latest(self._registry)
