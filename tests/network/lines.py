# SPDX-License-Identifier: Apache-2.0
"""Files that somebody may be writing to: only their whole lines count."""

import json


def whole_lines(path):
    return path.read_text().split("\n")[:-1]


def json_lines(path):
    """[the value of each line]"""
    return [json.loads(line) for line in whole_lines(path)]
