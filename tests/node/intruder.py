"""A pod that tries to get out. Runs inside a container: standard library only; what to aim at comes in AIMS.

Each attempt returns what it got hold of, or raises OSError when it was kept from it. One line of JSON tells for each:
its name, and `blocked` or `ESCAPED` with the details. Some leave marks that only the host can look for.
"""

import ctypes
import fcntl
import json
import os
import platform
import signal
import socket
import struct
import subprocess
import sys
import time

AIMS = json.loads(os.environ["AIMS"])
ARM = platform.machine() == "aarch64"
LEFT_OPEN = sorted(int(name) for name in os.listdir("/proc/self/fd"))
libc = ctypes.CDLL(None, use_errno=True)
attempts = []


def attempt(function):
    attempts.append(function)
    return function


class Kept(OSError):
    """Kept out without the kernel having to say so."""


def call(x86, arm, *arguments):
    """A system call by number; OSError when it fails."""
    result = libc.syscall(arm if ARM else x86, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return f"system call gave {result}"


def read(path):
    with open(path, "rb") as file:
        data = file.read(64)
    if not data:
        raise Kept(f"{path} is empty")
    return f"{path}: {data!r}"


def write(path, data="x"):
    with open(path, "w") as file:
        file.write(data)
    return f"wrote {path}"


def host_file(path):
    """Proof of being out: a file only the host has."""
    if not os.path.exists(path):
        raise Kept(f"{path} is not here")
    return path


# -- files of the host --------------------------------------------------------------------------------------------


@attempt
def change_a_file_of_the_host():
    write(AIMS["file"], "changed")
    raise Kept("changed here; the host looks whether it is changed there")


@attempt
def delete_a_file_of_the_host():
    os.unlink(AIMS["second_file"])
    raise Kept("gone here; the host looks")


@attempt
def make_a_program_of_the_host_setuid():
    os.chmod("/usr/bin/env", 0o4755)
    raise Kept("set here; the host looks")


@attempt
def look_into_the_nodes_own_folder():
    found = os.listdir(AIMS["data_dir"])
    if not found:
        raise Kept("it looks empty")
    return found


@attempt
def read_a_neighbours_secret_through_that_folder():
    return read(AIMS["neighbour_file"])


@attempt
def speak_to_the_api_servers_socket():
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(AIMS["api_socket"])
    return "connected"


@attempt
def find_the_way_in_that_was_used():
    return os.listdir("/.hekla-host")


@attempt
def walk_out_of_a_chroot():
    os.makedirs("/tmp/inner", exist_ok=True)
    top = os.open("/", os.O_RDONLY)
    os.chroot("/tmp/inner")
    os.fchdir(top)
    for _ in range(64):
        os.chdir("..")
    os.chroot(".")
    return host_file(AIMS["api_socket"])


@attempt
def follow_the_root_of_another_process():
    for number in range(1, 40):
        try:
            if os.path.exists(f"/proc/{number}/root{AIMS['api_socket']}"):
                return f"/proc/{number}/root"
        except OSError:
            pass
    raise Kept("none leads out")


@attempt
def open_a_file_by_its_number():
    handle = struct.pack("Ii", 8, 1) + struct.pack("Q", 2)
    return call(304, 265, os.open("/", os.O_RDONLY), handle, os.O_RDONLY)


@attempt
def leave_a_link_where_the_nodes_reads_last_words():
    os.unlink("/dev/termination-log")
    os.symlink("/etc/shadow", "/dev/termination-log")
    return "replaced"


# -- mounts -------------------------------------------------------------------------------------------------------


def mount(source, target, kind, flags=0):
    if libc.mount(source, target, kind, flags, None):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "mounted"


@attempt
def mount_something():
    return mount(b"x", b"/mnt", b"tmpfs")


@attempt
def make_proc_writable_again():
    return mount(None, b"/proc/sys", None, 32 | 4096)


@attempt
def take_a_cover_off():
    return call(166, 39, b"/proc/sys", 2)


@attempt
def mount_with_the_new_calls():
    return call(430, 430, b"tmpfs", 0)


@attempt
def copy_a_mount():
    return call(428, 428, -100, b"/", 1)


@attempt
def change_the_root():
    return call(155, 41, b"/tmp", b"/tmp")


@attempt
def set_a_release_agent():
    os.makedirs("/tmp/cgroup", exist_ok=True)
    mount(b"cgroup", b"/tmp/cgroup", b"cgroup")
    return write("/tmp/cgroup/release_agent", "/bin/true")


# -- devices and the kernel's own files ---------------------------------------------------------------------------


@attempt
def make_a_disk_device():
    os.mknod("/tmp/disk", 0o600 | 0o060000, os.makedev(254, 0))
    return "made"


@attempt
def open_a_disk():
    found = [name for name in os.listdir("/dev") if name.startswith(("sd", "vd", "nvme", "xvd", "mem", "kmsg", "loop"))]
    if not found:
        raise Kept("there is none")
    return found


@attempt
def say_what_dumps_core():
    return write("/proc/sys/kernel/core_pattern", "|/bin/true")


@attempt
def press_the_magic_key():
    return write("/proc/sysrq-trigger", "h")


@attempt
def read_the_kernels_memory():
    return read("/proc/kcore")


@attempt
def write_to_sysfs():
    for path in ("/sys/kernel/uevent_helper", "/sys/kernel/mm/ksm/run", "/sys/power/state"):
        if os.path.exists(path):
            return write(path, "")
    raise Kept("nothing there")


@attempt
def read_the_kernels_log():
    return call(103, 116, 3, ctypes.create_string_buffer(100), 100)


@attempt
def load_a_module():
    return call(175, 105, b"x", 1, b"")


@attempt
def run_a_program_in_the_kernel():
    return call(321, 280, 5, ctypes.create_string_buffer(128), 128)


@attempt
def watch_the_processor():
    return call(298, 241, ctypes.create_string_buffer(struct.pack("II", 1, 128).ljust(128, b"\0")), 0, -1, -1, 0)


@attempt
def handle_page_faults():
    return call(323, 282, 1)


@attempt
def use_asynchronous_calls():
    return call(425, 425, 4, ctypes.create_string_buffer(120))


@attempt
def leave_a_key_for_others():
    return call(248, 217, b"user", b"hekla", b"x", 1, -3)


@attempt
def set_the_clock():
    now = time.clock_gettime(time.CLOCK_REALTIME)
    time.clock_settime(time.CLOCK_REALTIME, now)
    return "set"


@attempt
def restart_the_machine():
    return call(
        169, 142, 0xFEE1DEAD, 672274793, 0, 0
    )  # only "do not restart on Ctrl-Alt-Del", should it be let through


@attempt
def swap_on_a_file():
    write("/tmp/swap")
    return call(167, 224, b"/tmp/swap", 0)


# -- processes and privileges -------------------------------------------------------------------------------------


@attempt
def signal_a_process_of_the_host():
    os.kill(AIMS["process"], 0)
    return "it is within reach"


@attempt
def trace_a_process_of_the_host():
    return call(101, 117, 16, AIMS["process"], 0, 0)


@attempt
def see_processes_of_others():
    others = [
        name for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid(), os.getppid())
    ]
    if not others:
        raise Kept("only our own")
    return others


@attempt
def make_a_user_namespace():
    return call(272, 97, 0x10000000)


@attempt
def be_born_into_a_user_namespace():
    return call(56, 220, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)


@attempt
def be_born_into_one_by_the_newer_call():
    return call(435, 435, struct.pack("8Q", 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0), 64)


@attempt
def join_another_namespace():
    return call(308, 268, os.open("/proc/1/ns/net", os.O_RDONLY), 0)


@attempt
def take_back_a_capability():
    header = struct.pack("Ii", 0x20080522, 0)
    everything = struct.pack("6I", *[0xFFFFFFFF] * 6)
    return call(126, 91, header, everything)


@attempt
def become_somebody_through_a_setuid_program():
    # Nobody else's number is at hand for an ordinary user: then there is nobody to become root from.
    subprocess.run(["cp", "/usr/bin/id", "/tmp/id"], check=True)
    os.chmod("/tmp/id", 0o4755)
    os.setresuid(65534, 65534, 65534)
    said = subprocess.run(["/tmp/id", "-u"], capture_output=True, text=True).stdout.strip()
    if said != "0":
        raise Kept(f"still {said}")
    return "root again"


@attempt
def type_into_the_terminal():
    _, slave = os.openpty()
    fcntl.ioctl(slave, 0x5412, b"x")
    return "typed"


@attempt
def use_what_was_left_open():
    # The folder being listed was open itself.
    if LEFT_OPEN != [0, 1, 2, 3]:
        return LEFT_OPEN
    raise Kept("nothing was")


@attempt
def read_the_agents_environment():
    found = [key for key in os.environ if "CANARY" in key or key.startswith(("PYTHON", "LD_"))]
    if not found:
        raise Kept("nothing of it is here")
    return found


# -- other pods and the network -----------------------------------------------------------------------------------


@attempt
def connect_to_the_hosts_loopback():
    for address in ("127.0.0.1", AIMS["gateway"]):
        try:
            socket.create_connection((address, AIMS["host_port"]), timeout=2).close()
            return address
        except OSError as error:
            refused = error
    raise refused


@attempt
def connect_to_a_nameless_socket_of_the_host():
    with socket.socket(socket.AF_UNIX) as made:
        made.connect("\0" + AIMS["abstract"])
    return "connected"


@attempt
def connect_to_a_nameless_socket_of_a_neighbour():
    with socket.socket(socket.AF_UNIX) as made:
        made.connect("\0neighbour")
    return "connected"


@attempt
def connect_to_a_neighbour_that_lets_nobody_in():
    socket.create_connection((AIMS["neighbour"], 7000), timeout=2).close()
    return "connected"


@attempt
def write_packets_by_hand():
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)


@attempt
def write_frames_by_hand():
    return socket.socket(socket.AF_PACKET, socket.SOCK_RAW)


@attempt
def speak_with_a_neighbours_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.setsockopt(socket.IPPROTO_IP, 15, 1)  # IP_FREEBIND
        made.bind((AIMS["neighbour"], 0))
        made.sendto(b"hello", (AIMS["gateway"], 53))
    return "sent"


@attempt
def be_transparent():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.setsockopt(socket.IPPROTO_IP, 19, 1)
    return "set"


@attempt
def take_a_neighbours_address():
    request = struct.pack("16sHH4s8x8x", b"eth0", socket.AF_INET, 0, socket.inet_aton(AIMS["neighbour"]))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        fcntl.ioctl(made, 0x8916, request)
    return "taken"


@attempt
def speak_to_the_hypervisor():
    return socket.socket(40, socket.SOCK_STREAM)


@attempt
def attach_shared_memory_of_the_host():
    libc.shmat.restype = ctypes.c_void_p
    found = libc.shmat(AIMS["shared_memory"], None, 0)
    if found == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "attached"


@attempt
def open_named_memory_of_the_host():
    return read("/dev/shm/" + AIMS["named_memory"])


# -- resources ----------------------------------------------------------------------------------------------------


@attempt
def multiply_without_end():
    children = []
    try:
        while len(children) < AIMS["processes"] * 2:
            child = os.fork()
            if child == 0:
                signal.pause()
            children.append(child)
        return f"{len(children)} processes"
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def told(function):
    """In a process of its own: an attempt may leave it unusable."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(writer, 2)
        try:
            signal.alarm(20)
            verdict = {"outcome": "ESCAPED", "details": repr(function())}
        except OSError as error:
            verdict = {"outcome": "blocked", "details": str(error)}
        except BaseException as error:
            verdict = {"outcome": "BROKEN", "details": repr(error)}
        os.write(writer, json.dumps(verdict).encode() + b"\n")
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode(errors="replace").strip().rpartition("\n")[2]
    os.waitpid(child, 0)
    return json.loads(said) if said.startswith("{") else {"outcome": "BROKEN", "details": said or "it died"}


for each in attempts:
    print(json.dumps({"name": each.__name__, **told(each)}), flush=True)
print("done", flush=True)
sys.exit(0)
