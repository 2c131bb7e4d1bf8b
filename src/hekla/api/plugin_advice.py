"""What a Job says to its plugins that will not do what its writer hoped, told before it is found out the hard way.

Upstream only logs such things, or says nothing. Admission warns whoever creates the Job; the job controller tells it in
an Event, for Jobs that no person created.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from hekla.api.job_plugins import Arguments, is_port, ssh_port
from hekla.api.kinds import Obj

# The flags that name tasks, and those of them that the plugin can do nothing without.
_ROLES: Mapping[str, tuple[str, ...]] = {
    "tensorflow": ("ps", "worker", "chief", "evaluator"),
    "pytorch": ("master", "worker"),
    "mpi": ("master", "worker"),
    "ray": ("head", "worker"),
    "hcclrank": ("master", "worker"),
}
# The flags that are ports, of those who take any number: what becomes of a wrong one is found out late, or by nobody.
_PORTS: Mapping[str, tuple[str, ...]] = {
    "tensorflow": ("port",),
    "pytorch": ("port",),
    "mpi": ("port",),
    "ray": ("port", "dashboardPort", "clientPort", "clientServerPort"),
}
_INDISPENSABLE: Mapping[str, tuple[str, ...]] = {"pytorch": ("master",), "mpi": ("worker",)}


def advice(name: str, spec: Obj, arguments: Mapping[str, Arguments]) -> list[tuple[str, str]]:
    """Pairs of plugin and advice, for a Job of that name. `arguments` are those of the plugins that take any, as they
    were understood."""
    tasks = {str(task.get("name") or ""): task for task in spec.get("tasks") or ()}
    found = [(plugin, given.problem) for plugin, given in sorted(arguments.items()) if given.problem]
    if "svc" in arguments:
        found += [("svc", text) for text in _about_hosts(name, tasks)]
    for plugin in _ROLES:
        if plugin in arguments:
            found += [(plugin, text) for text in _about_roles(plugin, arguments[plugin], tasks)]
    for plugin in _PORTS:
        if plugin in arguments and not arguments[plugin].problem:
            found += [(plugin, text) for text in _about_numbers(plugin, arguments[plugin])]
    if "pytorch" in arguments:
        found += [("pytorch", text) for text in _about_ranks(arguments["pytorch"], tasks)]
    if "ray" in arguments:
        found += [("ray", text) for text in _about_ray(arguments["ray"], tasks)]
        found += [("ray", text) for text in _about_ray_ports(arguments["ray"])]
    if "ssh" in arguments:
        found += [("ssh", text) for text in _about_ssh(arguments["ssh"])]
    if {"mpi", "ssh"} <= set(arguments):
        found += [("mpi", text) for text in _about_ports(arguments["mpi"], arguments["ssh"])]
    return found


def ray_head_missing(spec: Obj, ray: Arguments) -> bool:
    """Without its head task no pod of a ray job can ever be made."""
    return all(task.get("name") != ray.text("head") for task in spec.get("tasks") or ())


def _about_hosts(name: str, tasks: Mapping[str, Obj]) -> Iterator[str]:
    """A pod is called as its job is, and a dot ends the name of a host."""
    templates = [(task.get("template") or {}).get("spec") or {} for task in tasks.values()]
    if "." in name and not all(spec.get("hostname") and spec.get("subdomain") for spec in templates):
        yield f'no pod can be made: "{name}" has a dot, which the name of a host may not have; write "-" in its place'


def _about_roles(plugin: str, given: Arguments, tasks: Mapping[str, Obj]) -> Iterator[str]:
    roles = [role for role in _ROLES[plugin] if role in given.values]
    missing = [role for role in roles if given.text(role) not in tasks]
    needed = _INDISPENSABLE.get(plugin, ())
    if roles and len(missing) == len(roles):
        names = _alternatives(given.text(role) for role in roles)
        effect = "the cluster in TF_CONFIG is empty" if plugin == "tensorflow" else "it changes nothing"
        yield f"no task is named {names}: {effect}"
        return
    for role in missing:
        # A role that keeps its usual name may be left out; one that was given another name was meant.
        if role in needed or given.text(role) != role:
            yield f'no task is named "{given.text(role)}" (--{role})'


def _about_numbers(plugin: str, given: Arguments) -> Iterator[str]:
    for flag in _PORTS[plugin]:
        number = given.number(flag)
        # The second name of a port is 0 where it is not used.
        if not is_port(number) and (number or flag != "clientServerPort"):
            yield f"--{flag}: {number} is no port"


def _about_ranks(given: Arguments, tasks: Mapping[str, Obj]) -> Iterator[str]:
    name = given.text("master")
    masters = int((tasks.get(name) or {}).get("replicas") or 0)
    if name in tasks and name == given.text("worker"):
        yield f'task "{name}" is master and worker: ranks begin with 1, and nobody is rank 0'
    elif masters > 1:
        yield f'task "{name}" has {masters} replicas: every one of them is rank 0'


def _about_ray(given: Arguments, tasks: Mapping[str, Obj]) -> Iterator[str]:
    for role, flag in (("head", "headContainer"), ("worker", "workerContainer")):
        task = tasks.get(given.text(role))
        if task is None:
            continue
        containers = {one.get("name"): one for one in _containers(task)}
        name = given.text(flag)
        if name not in containers:
            yield f'task "{given.text(role)}" has no container named "{name}" (--{flag}): ray is not started in it'
        elif containers[name].get("command"):
            yield f'the command of container "{name}" in task "{given.text(role)}" is replaced by "ray start"'


def _about_ray_ports(given: Arguments) -> Iterator[str]:
    client = "clientServerPort" if given.number("clientServerPort") else "clientPort"
    for one, other in combinations(("port", "dashboardPort", client), 2):
        if given.number(one) == given.number(other):
            yield f"--{one} and --{other} are both {given.number(one)}, which the head's Service cannot have twice"


def _about_ssh(given: Arguments) -> Iterator[str]:
    if ssh_port(given) != given.number("ssh-port") and not given.problem:
        yield f"--ssh-port: {given.number('ssh-port')} is no port, so {ssh_port(given)} is used"
    if not given.text("ssh-key-file-path").startswith("/"):
        yield f'--ssh-key-file-path: "{given.text("ssh-key-file-path")}" is no absolute path'
    if given.text("ssh-public-key") and not given.text("ssh-private-key"):
        yield "without --ssh-private-key, --ssh-public-key is not used: a new pair is made"
    if given.text("ssh-private-key") and not given.text("ssh-public-key"):
        yield "without --ssh-public-key, nobody can log in with --ssh-private-key"


def _about_ports(mpi: Arguments, ssh: Arguments) -> Iterator[str]:
    if mpi.number("port") != ssh_port(ssh):
        yield f"it opens port {mpi.number('port')}, but ssh connects to {ssh_port(ssh)} (ssh: --ssh-port)"


def _containers(task: Obj) -> list[Obj]:
    return list(((task.get("template") or {}).get("spec") or {}).get("containers") or ())


def _alternatives(names: Iterator[str]) -> str:
    *others, last = [f'"{name}"' for name in names]
    return f"{', '.join(others)} or {last}" if others else last
