# SPDX-License-Identifier: Apache-2.0
"""The home of the landlock rung, where nothing can be mounted: what Bawn puts there can be used and not be changed, and what the inside of an earlier
life put there leads nowhere."""

import pytest


def bare(runner, deny, *args, **kw):
    return runner.run(deny, "userns", "--", runner.path, *args, **kw)


def run(runner, deny, script, *options):
    return bare(runner, deny, "run", "--pids", "30000", *options, "--", "sh", "-c", script)


def test_git_knows_who_and_what_to_ignore(user_runner, deny):
    runner = user_runner
    runner.write(runner.home / ".gitconfig", "[user]\n\tname = A U Thor\n\temail = author@example.com\n[core]\n\texcludesFile = ~/.ignored\n")
    runner.write(runner.home / ".ignored", "*.bak\n")
    r = run(runner, deny, "git init -q . && touch x x.bak && git add . && git commit -qm one && git log --format='%an %ae' --name-only")
    assert r.rc == 0 and r.out == b"A U Thor author@example.com\n\nx\n", r


def test_caches_outlive_a_run(user_runner, deny):
    r = run(user_runner, deny, "echo x >> ~/.cache/seen; echo y >> ~/.npm/seen; echo z >> $GOMODCACHE/seen; command -v ssh")
    assert r.rc == 0 and r.out.endswith(b"/bawn/first/ssh\n"), r
    r = run(user_runner, deny, "cat ~/.cache/seen ~/.npm/seen $GOMODCACHE/seen; test ! -e ~/go")
    assert r.rc == 0 and r.out == b"x\ny\nz\n", r


# Each line of output is a change that worked. $1: the folder that home and tmp are in
MEDDLE = """
d=$1
for f in $d/bawn/gitconfig $d/bawn/ssh_config $d/bawn/first/ssh; do
    chmod 0777 $f $(dirname $f) 2>/dev/null
    (echo x >> $f) 2>/dev/null && echo wrote $f
    rm -f $f 2>/dev/null && echo removed $f
    mv $f $f.x 2>/dev/null && echo moved $f
done
(echo x > $d/bawn/first/git) 2>/dev/null && echo planted
mv $d/bawn $d/other 2>/dev/null && echo moved the folder
mkdir $d/new 2>/dev/null && echo made beside the home
echo tried
"""


def test_what_is_beside_the_home_cannot_be_changed(user_runner, deny):
    runner = user_runner
    top = runner.workspace / "like-it"
    for name in ("bawn/gitconfig", "bawn/ssh_config", "bawn/first/ssh"):
        runner.write(top / name, "text")
    assert len(runner.run("sh", "-c", MEDDLE, "sh", str(top)).out.splitlines()) == 10, "it works without a sandbox"
    r = run(runner, deny, f"set -- $(dirname $HOME); test -s $1/bawn/ssh_config || exit 9; {MEDDLE}")
    assert r.rc == 0 and r.out == b"tried\n", r


@pytest.fixture
def box(user_runner, deny):
    r = bare(user_runner, deny, "start", "box", "--pids", "30000")
    assert r.rc == 0, r
    yield user_runner
    assert user_runner.bawn("rm", "--force", "box").rc == 0


def test_links_of_an_earlier_life_are_not_followed(box, deny):
    """Claim: at its next start nothing is made, removed or written where links in the home of a persistent sandbox lead."""
    victim = box.mkdir(box.home / "victim", 0o755)
    box.write(victim / "kept", "kept")
    script = f"cd; rm -rf .ssh .yarn .cache .npm .m2; ln -s {victim} .ssh; ln -s {victim} .yarn; ln -s {victim} .cache; ln -s {victim}/kept .npm; mkdir .m2; echo own > .m2/own"
    assert box.bawn("exec", "box", "--", "sh", "-c", script).rc == 0
    assert box.bawn("stop", "box").rc == 0
    r = bare(box, deny, "start", "box")
    assert r.rc == 0, r
    assert [p.name for p in victim.iterdir()] == ["kept"] and (victim / "kept").read_text() == "kept"
    r = box.bawn("exec", "box", "--", "sh", "-c", "cat ~/.m2/own ~/.ssh/kept")
    assert r.out == b"own\n" and r.rc != 0, r


def test_a_second_life_has_its_own_files(box, deny):
    assert box.bawn("exec", "box", "--", "sh", "-c", "git config --system safe.directory; echo x > ~/.cache/seen").out == b"*\n"
    assert box.bawn("stop", "box").rc == 0 and bare(box, deny, "start", "box").rc == 0
    r = box.bawn("exec", "box", "--", "sh", "-c", "git config --system safe.directory; cat ~/.cache/seen; test -s $(dirname $(command -v ssh))/../ssh_config")
    assert r.rc == 0 and r.out == b"*\nx\n", r
