"""Fills what a file quotes of another.

Between `<!-- ratios: HEADING -->` and `<!-- end -->` comes the section of that heading, without the heading. A heading that is
not there is an error: what is quoted would be old.
"""

import re
import sys


def sections(text):
    """The sections by their headings, whatever the level."""
    found = {}
    for part in re.split(r"^#+ ", text, flags=re.M)[1:]:
        heading, _, body = part.partition("\n")
        found[heading.strip()] = body.strip()
    return found


def main(source, target):
    with open(source, encoding="utf-8") as file:
        found = sections(file.read())
    with open(target, encoding="utf-8") as file:
        text = file.read()

    def fill(match):
        heading = match[1].strip()
        if heading not in found:
            sys.exit(f"{target} quotes “{heading}”, which {source} does not have")
        return f"<!-- ratios: {heading} -->\n\n{found[heading]}\n\n<!-- end -->"

    text, count = re.subn(r"<!-- ratios: (.*?) -->.*?<!-- end -->", fill, text, flags=re.S)
    if count == 0:
        sys.exit(f"{target} quotes nothing of {source}")
    with open(target, "w", encoding="utf-8") as file:
        file.write(text)


main(*sys.argv[1:])
