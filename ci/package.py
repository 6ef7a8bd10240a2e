"""Reads `cargo metadata` and prints what is wrong with the packages before one of them is published."""

import json
import sys


def main():
    metadata = json.load(sys.stdin)
    packages = {it["id"]: it for it in metadata["packages"]}
    ixion = next(it for it in packages.values() if it["name"] == "ixion")
    others = [packages[it] for it in metadata["workspace_members"] if it != ixion["id"]]
    wrong = [it["name"] + " could be published" for it in others if it["publish"] != []]
    dependencies = {it["id"]: it["deps"] for it in metadata["resolve"]["nodes"]}
    for it in built_on(ixion["id"], dependencies):
        needs = packages[it]["rust_version"]
        if number(needs) > number(ixion["rust_version"]):
            wrong.append(f"{packages[it]['name']} needs Rust {needs}, ixion says {ixion['rust_version']}")
    for it in wrong:
        print(it, file=sys.stderr)
    sys.exit(bool(wrong))


def built_on(package, dependencies, seen=None):
    """What a package is built on: not for its tests, nor for a model checker or a benchmark by a cfg of its own."""
    seen = set() if seen is None else seen
    for it in dependencies[package]:
        normal = any(kind["kind"] is None and "ixion_" not in (kind["target"] or "") for kind in it["dep_kinds"])
        if normal and it["pkg"] not in seen:
            seen.add(it["pkg"])
            built_on(it["pkg"], dependencies, seen)
    return seen


def number(version):
    return [int(it) for it in (version or "0").split(".")]


main()
