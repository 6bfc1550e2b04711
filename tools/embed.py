#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Puts files into the program:
tools/embed.py OUT.c NAME FILE.json...     makes builtin_NAME (see src/config/load/builtin.h)
tools/embed.py --text OUT.c NAME FILE      makes the string builtin_NAME
"""

import json
import pathlib
import sys


def c_string(data):
    """One C literal per line of the file. Octal escapes, because hexadecimal ones swallow the digits that follow."""
    lines = data.splitlines(keepends=True)
    return "\n".join('     "' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in line) + '"' for line in lines)


def text(out, name, file):
    pathlib.Path(out).write_text(f"extern const char builtin_{name}[];\nconst char builtin_{name}[] =\n{c_string(pathlib.Path(file).read_bytes())};\n")


def main(out, name, *files):
    rows = []
    for file in map(pathlib.Path, files):
        data = file.read_bytes()
        json.loads(data)
        rows.append(f'    {{"{file.stem}",\n{c_string(data)},\n     {len(data)}}},\n')
    text = f'#include "config/load/builtin.h"\n\nconst struct builtin_file builtin_{name}[] = {{\n' + "".join(rows) + "};\n"
    pathlib.Path(out).write_text(text + f"const size_t n_builtin_{name} = {len(rows)};\n")


if __name__ == "__main__":
    text(*sys.argv[2:]) if sys.argv[1] == "--text" else main(*sys.argv[1:])
