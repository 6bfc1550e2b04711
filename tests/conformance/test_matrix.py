# SPDX-License-Identifier: Apache-2.0
"""Each promise of `bawn engines` has a case that runs for every engine which makes it, and that fails where nothing is enforced."""

import pytest

import test_behaviour
import test_network
import test_walls
from network_fixtures import Net, inter_net  # noqa: F401

# The promise, its case, and whether the case fails at once without a sandbox. The others would wait for an end that does not come, or compare two sides.
PROOFS = {
    "files": (test_walls.test_files_of_the_host_are_not_there, True),
    "processes": (test_walls.test_no_process_of_the_host_is_seen, True),
    "network": (test_network.test_every_port_leads_to_the_gate, True),
    "sockets": (test_walls.test_nothing_of_the_engine_is_inside, True),
    "syscalls": (test_walls.test_privileges_are_none, True),
    "cpu": (test_behaviour.test_limits_that_are_said_to_be_enforced_are, False),
    "memory": (test_behaviour.test_memory_limit_is_named, True),
    "pids": (test_behaviour.test_process_limit, True),
    "disk": (test_behaviour.test_disk_limit, False),
    "time": (test_behaviour.test_time_limit, False),
    "end": (test_behaviour.test_it_ends_with_its_supervisor, False),
    "hiding": (test_walls.test_hidden_files_are_not_there, True),
    "hiding-later": (test_walls.test_a_hidden_file_that_appears_later_is_not_there, True),
    "protection": (test_walls.test_hooks_are_not_changed_unseen, True),
    "names": (test_network.test_an_allowed_name_is_reached_and_another_is_not, True),
    "ports": (test_network.test_every_port_leads_to_the_gate, True),
    "credentials": (test_network.test_a_credential_is_put_in_outside, True),
    "kernel": (test_walls.test_the_kernel_is_another_one, False),
}
FAILING = sorted(name for name, (_, fails) in PROOFS.items() if fails)

native = pytest.mark.parametrize("box", ["native"], indirect=True)
as_user = pytest.mark.parametrize("runner", ["user"], indirect=True)


@as_user
@native
def test_every_promise_has_a_case(box):
    """A new promise without one fails here."""
    table = box.bawn("engines", "--json").json()
    assert set(table["guarantees"]) == set(PROOFS)
    for engine in table["engines"]:
        for rung in engine["rungs"]:
            assert set(rung["keeps"]) | set(rung["lacks"]) == set(PROOFS), engine["name"]


@pytest.fixture
def bare(box):
    """bawn, but every run of it is without a sandbox."""
    box.runner.path = box.runner.write(box.runner.top / "bawn-none", f"""#!/bin/sh
[ "$1" = run ] && shift && set -- run --no-sandbox --yes-unsandboxed "$@"
exec {box.runner.path} "$@"
""", 0o755)
    box.need = lambda _: None
    box.env["BAWN_SANDBOX"] = None
    return box


@pytest.mark.parametrize("promise", FAILING)
@as_user
@native
def test_the_case_fails_where_nothing_is_enforced(bare, promise, inter_net):  # noqa: F811
    case = PROOFS[promise][0]
    if case.__module__ != "test_network":
        with pytest.raises((AssertionError, pytest.fail.Exception, IndexError, ValueError)):
            case(bare)
        return
    net = Net(inter_net, bare.runner)
    try:
        with pytest.raises((AssertionError, pytest.fail.Exception, IndexError, ValueError)):
            case(net)
    finally:
        net.end()
