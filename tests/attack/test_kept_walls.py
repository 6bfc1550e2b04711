"""What is executed later in a kept sandbox is behind the same walls as what a run starts, and commands are apart from each other's clients.

The first part is the attack tests themselves, a third of each kind: `runner.path` is a program that looks like bawn and executes what would be a
run in a sandbox that was started before (`SHIM`), so that every probe of theirs comes in through `bawn exec`.
"""

import contextlib
import json
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "integration")]
import keep_driver as kd  # noqa: E402
from keep_driver import Box  # noqa: E402

from test_files import (  # noqa: E402, F401
    test_a_file_given_as_a_stream_cannot_be_opened_anew, test_a_hard_link_made_inside_reaches_no_outside_file, test_existing_tools_cannot_be_opened_for_writing,
    test_inherited_descriptors_are_closed, test_links_of_pid_1_are_closed, test_magic_links_do_not_lead_out, test_mounts_cannot_be_made_or_undone,
    test_nested_user_namespace_is_refused, test_no_file_capability_is_left_in_the_workspace, test_nothing_of_the_host_is_found_by_looking_everywhere,
    test_our_programs_cannot_be_overwritten_through_proc, test_pid_1_root_does_not_lead_out, test_standard_input_as_a_folder_is_no_door,
    test_symlink_does_not_let_a_write_out, test_symlink_to_a_folder_is_not_followed_out)
from test_hidden import test_removing_everything_leaves_hidden_files_alone  # noqa: E402, F401
from test_kernel import (  # noqa: E402, F401
    test_cgroup_tree_cannot_be_reached, test_devices_are_the_harmless_ones, test_families_of_sockets, test_ids_other_than_the_own_are_unmapped,
    test_no_kernel_setting_can_be_opened_for_writing, test_no_module_is_loaded_on_demand, test_nothing_else_of_proc_or_sys_can_be_opened_for_writing)
from test_limits import (  # noqa: E402, F401
    test_descriptors_are_limited, test_limits_cannot_be_raised_from_inside)
from test_policy import test_exported_shell_functions_do_not_pass, test_only_private_places_and_the_workspace_can_be_written  # noqa: E402, F401
from test_processes import (  # noqa: E402, F401
    test_a_crash_leaves_no_memory_image, test_all_namespaces_are_own, test_arguments_of_pid_1_tell_nothing, test_descriptors_of_pid_1_cannot_be_listed,
    test_kernel_keyrings_are_not_shared, test_memory_of_pid_1_cannot_be_read, test_no_process_of_the_host_is_seen, test_outside_processes_cannot_be_named,
    test_pid_1_cannot_be_traced, test_pid_1_is_closed, test_pid_1_survives_signals_from_inside, test_privileges_are_none, test_shared_memory_of_the_host_is_not_there,
    test_signals_to_everybody_stay_inside, test_the_supervisor_cannot_be_signalled, victim)
from test_protect import test_git_works_and_the_host_sees_a_clean_tree, test_many_at_once, test_other_spellings_do_not_matter  # noqa: E402, F401
from test_sockets import (  # noqa: E402, F401
    test_a_datagram_socketpair_cannot_be_reconnected_to_the_host, test_abstract_sockets_of_the_host_do_not_answer, test_i386_calls_are_no_way_round_the_filter,
    test_io_uring_is_no_way_round_the_filter, test_loopback_services_of_the_host_do_not_answer, test_no_socket_of_ours_is_reachable, test_only_loopback_exists,
    test_there_is_no_route_out, test_x32_calls_are_no_way_round_the_filter)
from test_terminal import (  # noqa: E402, F401
    test_a_sequence_without_an_end_swallows_no_later_output, test_console_selection_ioctl_is_refused, test_no_character_can_be_typed_for_the_user,
    test_sequences_in_single_bytes_are_filtered, test_the_terminal_inside_is_another_one, test_without_a_terminal_there_is_no_controlling_one)

SHIM = """#!/bin/bash
[ "$1" = run ] || exec "{bawn}" "$@"
shift
options=()
while [ "$1" != -- ]; do options+=("$1"); shift; done
shift
name=k$(printf '%s\\n' "${{options[@]}}" | cksum | cut -d ' ' -f 1)
if ! said=$("{bawn}" start "${{options[@]}}" "$name" 2>&1 < /dev/null) && [[ $said != *"already running"* ]]; then
    printf '%s\\n' "$said" >&2
    exit 125
fi
exec "{bawn}" exec "$name" -- "$@"
"""


@pytest.fixture
def runner(runner):
    """Whose runs are commands of a kept sandbox; the usual one was started before, and every one is stopped at the end."""
    real = runner.path
    runner.path = runner.write(runner.top / "bawn", SHIM.format(bawn=real), 0o755)
    runner.helper = lambda name: real.parent / name
    runner.real = real
    try:
        assert runner.bawn("run", "--", "true").rc == 0
        yield runner
    finally:
        runner.path = real
        r = runner.bawn("stop", "--all", "-t", "0", "--force")
    assert r.rc == 0, r
