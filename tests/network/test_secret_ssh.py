import pytest
import ssh_tools

@pytest.fixture(scope="module")
def git(inter_net):
    server = ssh_tools.Sshd(inter_net, "git", ssh_tools.GIT)
    yield server
    server.end()

@pytest.fixture
def me(net):
    net.names["git.example.com"] = [ssh_tools.GIT]
    net.names["other.example.org"] = [ssh_tools.OTHER]
    net.save_names()
    u = ssh_tools.User(net)
    yield u
    u.stop()

def test_x(net, git, me):
    me.know(git.known("git.example.com", "ed25519"))
    r = me.outside("git@git.example.com", "echo in")
    print(r)
    r = net.sandbox("sh", "-xc", """
    id; getent passwd $(id -u); echo $HOME; ls -la ~/.ssh; ssh-add -l
    ssh git@git.example.com echo in
    git clone git@git.example.com:demo.git; cd demo
    git -c user.name=A -c user.email=a@b.c commit -q --allow-empty -m x
    git push origin HEAD:main
    git -c user.name=A -c user.email=a@b.c -c gpg.format=ssh -c "user.signingkey=key::$(ssh-add -L | head -1)" commit -S -q --allow-empty -m y
    git -c user.name=A -c user.email=a@b.c -c gpg.format=ssh -c "user.signingkey=key::$(ssh-add -L | head -1)" commit -S -q --allow-empty -m y2
    ssh-keygen -Y sign -n file -f <(ssh-add -L | head -1) </etc/hostname
    """, allow=["git.example.com:22"], env=me.env, options=["--json"])
    print(r.out.decode(), r.err.decode())
    print(*net.log(), sep="\n")
    assert 0
