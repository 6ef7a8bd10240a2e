#!/usr/bin/env python3
"""Holds the table of scenarios and clients in a README to what the suites have printed: matrix.py README DIRECTORY

DIRECTORY has a file for each column, by its name: the output of that client's suite.
"""
import pathlib
import sys


def table(readme):
    """The names of the scenarios by column."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in readme.splitlines() if line[:1] == "|"]
    head = next(at for at, row in enumerate(rows) if row[0] == "scenario")
    clients = rows[head][1:]
    claimed = {client: set() for client in clients}
    for name, *cells in rows[head + 2 :]:
        if len(cells) != len(clients):
            break
        for client, cell in zip(clients, cells):
            if cell:
                claimed[client].add(name)
    return claimed


def passed(output):
    lines = [line.removeprefix("PASS ") for line in output.splitlines() if line.startswith("PASS ")]
    return {line.split(": ")[0] for line in lines}


def main():
    readme, directory = map(pathlib.Path, sys.argv[1:])
    wrong = []
    claimed = table(readme.read_text())
    for client, names in claimed.items():
        shown = passed((directory / client).read_text())
        wrong += [f"the table has it, {client} does not pass it: {name}" for name in sorted(names - shown)]
        wrong += [f"{client} passes it, the table does not have it: {name}" for name in sorted(shown - names)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    if wrong or not claimed:
        sys.exit(1)
    print(f"the table has what is passed: {sum(map(len, claimed.values()))} scenarios of {len(claimed)} clients")


if __name__ == "__main__":
    main()
