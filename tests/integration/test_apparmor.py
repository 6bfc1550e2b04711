# SPDX-License-Identifier: Apache-2.0
"""AppArmor's profile as `make install` installs it (tools/apparmor), on a system that is made up: root is a folder, apparmor_parser a script."""

import pathlib
import shutil

import pytest

TOOL = pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "apparmor"
PARSER = """#!/bin/sh
[ "$1" = -r ] && [ $# = 2 ] && cat "$2" >"$(dirname "$0")/../loaded"
exit %d
"""


class System:
    def __init__(self, runner, restricted="1", parser=0, folder=True):
        self.runner, self.top = runner, runner.workspace / "system"
        for part in ("", "bin", "etc", "proc", "proc/sys", "proc/sys/kernel", *(["etc/apparmor.d"] if folder else [])):
            runner.mkdir(self.top / part)
        if restricted:
            runner.write(self.top / "proc/sys/kernel/apparmor_restrict_unprivileged_userns", restricted + "\n")
        for tool in ("sh", "cat", "id", "sed", "chmod", "mktemp", "mv", "rm", "dirname", "mkdir"):
            (self.top / "bin" / tool).symlink_to(shutil.which(tool, path="/usr/bin:/bin"))
        if parser is not None:
            runner.write(self.top / "bin/apparmor_parser", PARSER % parser, 0o755)

    def install(self, program="/usr/local/bin/bawn", **env):
        done = self.runner.run(TOOL, program, self.top, env={"PATH": str(self.top / "bin"), **env})
        assert done.rc == 0, done
        return done

    def files(self):
        return sorted(p.name for p in (self.top / "etc/apparmor.d").glob("*")) + sorted(p.name for p in (self.top / "etc/apparmor.d").glob(".bawn*"))

    def loaded(self):
        path = self.top / "loaded"
        return path.read_text() if path.exists() else None


def test_installed_and_loaded_by_root_alone(runner):
    system = System(runner)
    done = system.install()
    if not runner.is_root:
        assert system.files() == [] and system.loaded() is None and b"only root can install" in done.err
        return
    profile = system.top / "etc/apparmor.d/bawn"
    assert system.files() == ["bawn"] and profile.read_text() == system.loaded() and profile.stat().st_mode & 0o777 == 0o644
    assert 'profile bawn "/usr/local/bin/bawn{,d}" flags=(unconfined) {\n  userns,\n' in profile.read_text() and done.err == b""
    system.install("/usr/bin/bawn")  # again, elsewhere
    assert '"/usr/bin/bawn{,d}"' in system.loaded() and system.files() == ["bawn"]


@pytest.mark.parametrize("lack", [{"restricted": None}, {"restricted": "0"}, {"folder": False}], ids=str)
def test_nothing_where_nothing_is_restricted(runner, lack):
    system = System(runner, **lack)
    assert system.install().err == b"" and system.files() == [] and system.loaded() is None


def test_staged_is_only_a_file(runner):
    system = System(runner, restricted=None, folder=False)
    done = system.install(DESTDIR=str(runner.workspace / "stage"))
    staged = runner.workspace / "stage/etc/apparmor.d/bawn"
    assert '"/usr/local/bin/bawn{,d}"' in staged.read_text() and [p.name for p in staged.parent.iterdir()] == ["bawn"]
    assert done.err == b"" and system.loaded() is None and not (system.top / "etc/apparmor.d").exists()


def test_without_a_parser_the_next_boot_loads_it(root_runner):
    system = System(root_runner, parser=None)
    assert b"next boot" in system.install().err and system.files() == ["bawn"]


def test_a_profile_that_is_not_accepted_is_not_left_behind(root_runner):
    system = System(root_runner, parser=1)
    assert b"not accepted" in system.install().err and system.files() == []


def test_a_path_that_would_be_a_pattern_is_refused(root_runner):
    system = System(root_runner)
    assert b"unusual characters" in system.install('/opt/*"{x}/bawn').err and system.files() == []
