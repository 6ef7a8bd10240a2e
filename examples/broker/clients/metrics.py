#!/usr/bin/env python3
"""Reads figures in the text format of Prometheus with its own parser: metrics.py <TEXT

Prints the samples as JSON, [[name, {label: value}, number], ...]; a text that is not well-formed is an error.
"""
import json
import sys

from prometheus_client.parser import text_string_to_metric_families

samples = []
for family in text_string_to_metric_families(sys.stdin.read()):
    assert family.type != "unknown" and family.documentation, f"{family.name} has no type or no help"
    samples += [[sample.name, sample.labels, sample.value] for sample in family.samples]
json.dump(samples, sys.stdout)
