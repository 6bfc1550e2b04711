#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the list of protected paths into the program: embed_protect.py OUT.c protect.txt  (see src/workspace/hide/protect.h)"""

import json
import pathlib
import sys

COLUMNS = 4


def rows_of(file):
    for number, line in enumerate(pathlib.Path(file).read_text(encoding="ascii").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        row = line.split("\t")
        if len(row) != COLUMNS or not all(part and part == part.strip() for part in row):
            sys.exit(f"{file}:{number}: a row is PATTERN, CLASS, REASON and SOURCE, with a tab between them")
        yield row


def main(out, file):
    rows = list(rows_of(file))
    patterns = "\n".join("    " + json.dumps(row[0] + "\n") for row in rows)
    table = "".join("    {" + ", ".join(map(json.dumps, row)) + "},\n" for row in rows)
    pathlib.Path(out).write_text(f'#include "workspace/hide/protect.h"\n\nconst char protect_defaults[] =\n{patterns};\n\n'
                                 f"const struct protect_row protect_rows[] = {{\n{table}}};\nconst size_t n_protect_rows = {len(rows)};\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
