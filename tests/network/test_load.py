# SPDX-License-Identifier: Apache-2.0
"""The short form of load.py: a thousand connections at once and some rounds of mixed work. No connection is left over, memory and descriptors
stay where they were, every verdict is logged once, and nothing that was denied leaves the machine. No opinion about speed."""

import load


def test_load(net):
    lines = []
    work = load.Load(net, say=lines.append)
    work.order("hold", 1000)
    for _ in range(3):
        work.order("mix", 300, 100)
    wrong = work.end()
    assert not wrong, "\n".join(lines + wrong)
    assert set(work.done) == {"open", "echo", "passed", "looked", "plain", "slow_passed", "slow_looked", "denied_connect", "denied_address", "lookup",
                              "denied_lookup", "walk_away"}
