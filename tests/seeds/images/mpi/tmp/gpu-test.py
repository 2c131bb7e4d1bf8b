import os
import socket

print(f"rank {os.environ['OMPI_COMM_WORLD_RANK']} on {socket.gethostname()}", flush=True)
