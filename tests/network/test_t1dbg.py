from test_secret_clients import *
import time
def test_ws(clients):
    w = WEBSOCKET.replace('"wss://direct.example.com/ws"', f'"wss://direct.example.com/ws", extra_headers={{"x-api-key": "{VALUES["key"]}"}}')
    t = time.time(); r = clients.net.outside("/usr/bin/python3", "-c", w); print("OUTSIDE", time.time() - t, r)
    w = WEBSOCKET.replace("        print(await ws.recv())\n        for", "        print(await ws.recv()); import time; t=time.time()\n        for") + "\nprint('end')\n"
    w = w.replace("asyncio.run(main())", "import logging; logging.basicConfig(level=logging.DEBUG, format='%(relativeCreated)d %(name)s %(message)s'); asyncio.run(main())")
    t = time.time(); r = clients.run("key", script=python(w)); print("INSIDE", time.time() - t, r.err.decode(), r.out.decode())
    assert 0
