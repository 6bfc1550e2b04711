# SPDX-License-Identifier: Apache-2.0
"""Each promise of `bawn engines` has a case that runs for every engine which makes it, and that fails where nothing is enforced."""

import pytest

import test_behaviour
import test_network
import test_walls
from network_fixtures import Net, inter_net  # noqa: F401

PROOFS = {  # the promise, and its case
    "files": test_walls.test_files_of_the_host_are_not_there,
    "processes": test_walls.test_no_process_of_the_host_is_seen,
    "network": test_network.test_every_port_leads_to_the_gate,
    "sockets": test_walls.test_nothing_of_the_engine_is_inside,
    "syscalls": test_walls.test_privileges_are_none,
    "cpu": test_behaviour.test_cpu_limit,
    "memory": test_behaviour.test_memory_limit_is_named,
    "pids": test_behaviour.test_process_limit,
    "disk": test_behaviour.test_disk_limit,
    "time": test_behaviour.test_time_limit,
    "end": test_behaviour.test_it_ends_with_its_supervisor,
    "hiding": test_walls.test_hidden_files_are_not_there,
    "hiding-later": test_walls.test_a_hidden_file_that_appears_later_is_not_there,
    "protection": test_walls.test_hooks_are_not_changed_unseen,
    "names": test_network.test_an_allowed_name_is_reached_and_another_is_not,
    "ports": test_network.test_every_port_leads_to_the_gate,
    "credentials": test_network.test_a_credential_is_put_in_outside,
    "kernel": test_walls.test_the_kernel_is_another_one,
}
PATIENCE = 4
FAILURES = (AssertionError, pytest.fail.Exception, IndexError, ValueError)
# Where the engine has no control group, something weaker is in its place (a watchdog, an rlimit): the promise is not made, and the case may pass.
SUBSTITUTES = {"memory", "pids"}

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
    return claim_everything(box)


def claim_everything(box):
    box.need = lambda _: None
    box.keeps = lambda: sorted(PROOFS)
    box.patience = PATIENCE
    return box


def assert_fails(box, promise, inter_net):  # noqa: F811
    case = PROOFS[promise]
    net = Net(inter_net, box.runner) if case.__module__ == "test_network" else None
    try:
        with pytest.raises(FAILURES):
            case(net or box)
    finally:
        if net:
            net.end()


@pytest.mark.parametrize("promise", sorted(PROOFS))
@as_user
@native
def test_the_case_fails_where_nothing_is_enforced(bare, promise, inter_net):  # noqa: F811
    bare.env["BAWN_SANDBOX"] = None
    assert_fails(bare, promise, inter_net)


def test_the_case_fails_where_the_engine_says_no(box, inter_net):  # noqa: F811
    """Each cell of the table that is empty, in every column: what the engine does not promise is not there either."""
    lacks = sorted(set(PROOFS) - set(box.keeps()))
    for promise in set(lacks) - SUBSTITUTES:
        assert_fails(claim_everything(box), promise, inter_net)
