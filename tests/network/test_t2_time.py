import sys
sys.path.insert(0, "/work/main/tests/network")
from test_secret_attacks import *
def test_time(net, echo):
    r = net.sandbox(*DIRECT, "/usr/bin/python3", net.runner.write("carry.py", CARRIER + """
import time
p = os.environ["API_KEY"]
slow = {}
for who, q in (("p", p), ("c", made_like(p))):
    for name, data in ways(q).items():
        t = time.time()
        a = send(data)
        if time.time() - t > 1: slow[who + name] = (time.time() - t, a.decode("latin-1"))
    for name, data in h2_ways(q).items():
        t = time.time()
        a = h2_send(data)
        if time.time() - t > 1: slow[who + name] = (time.time() - t, a.decode("latin-1"))
print(json.dumps(slow))
"""), allow=ALLOW, options=["--json"])
    open("/tmp/t2_slow.txt","w").write(r.out.decode())
    assert 0
