import sys

sys.path.insert(0, "/usr/local/lib/members")
from members import meet

flags = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:])
meet(flags["ps_hosts"].split(","), flags["worker_hosts"].split(","), flags["job_name"])
