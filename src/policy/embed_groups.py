#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the built-in host groups into the program: embed_groups.py OUT.c GROUP.txt...  (see src/policy/host/pattern.h)"""

import json
import pathlib
import sys


def main(out, *files):
    rows = []
    for file in map(pathlib.Path, files):
        lines = (line.split("#")[0].strip() for line in file.read_text(encoding="ascii").splitlines())
        text = "\n".join("     " + json.dumps(line + "\n") for line in lines)  # empty lines stay: errors name the line
        rows.append(f'    {{"@{file.stem}",\n{text}}},\n')
    pathlib.Path(out).write_text('#include "policy/host/pattern.h"\n\nconst struct builtin_group builtin_groups[] = {\n' + "".join(rows) +
                                 f"}};\nconst size_t n_builtin_groups = {len(rows)};\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
