import json
import os
import socket
import sys
from pathlib import Path

sys.path.insert(0, "/usr/local/lib/members")
from members import meet

config = json.loads(os.environ["TF_CONFIG"])
print("TF_CONFIG", json.dumps(config, sort_keys=True), flush=True)
role = "ps" if "-ps-" in socket.gethostname() else "worker"
# One of the documents misspells a variable, so its list of parameter servers is empty.
ps = config["cluster"]["ps"] or [f"{host}:2222" for host in Path("/etc/volcano/ps.host").read_text().split()]
meet(ps, config["cluster"]["worker"], role)
