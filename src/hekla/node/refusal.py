"""What a pod may ask for that this node cannot give. Nothing a person wrote is dropped silently."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hekla.api.kinds import Obj
from hekla.node.hooks.capabilities import refused_capabilities
from hekla.node.hooks.probes import ProbeKind
from hekla.node.hooks.volumes import is_within, unsupported_volumes
from hekla.node.runtime import init_containers, main_containers


def refusal(pod: Obj, host_paths: Sequence[Path] = ()) -> str:
    """Why the pod must not be started at all; empty when it may. Running it anyway would give wrong results."""
    volumes = unsupported_volumes(pod)
    if volumes:
        return f"volumes not supported yet by this node: {', '.join(volumes)}"
    for volume in pod["spec"].get("volumes") or ():
        path = (volume.get("hostPath") or {}).get("path")
        if path and not is_within(Path(path), host_paths):
            return forbidden_host_path(path)
    if pod["spec"].get("hostNetwork"):
        return "hostNetwork is not supported: pods here have a network of their own"
    for container in init_containers(pod) + main_containers(pod):
        profile = _seccomp(pod, container)
        if profile.get("type") == "Localhost":
            return f"seccomp profile {profile.get('localhostProfile')}: this node knows no profile but its own"
    return ""


def forbidden_host_path(path: str) -> str:
    return f"hostPath {path} is not among the paths this node lets pods mount: start it with --allow-host-path {path}"


def _seccomp(pod: Obj, container: Obj) -> Obj:
    own, shared = (each.get("securityContext") or {} for each in (container, pod["spec"]))
    found: Obj = own.get("seccompProfile") or shared.get("seccompProfile") or {}
    return found


def unheeded_wishes(pod: Obj, *, limits: bool) -> list[str]:
    """What the pod asks for and will not get, though it can run without. `limits`: whether those are enforced."""
    found = [key for key in ("hostPID", "hostIPC", "shareProcessNamespace") if pod["spec"].get(key)]
    for container in init_containers(pod) + main_containers(pod):
        name = container["name"]
        found += [f"{name}: {key}.grpc" for key in ProbeKind if (container.get(key) or {}).get("grpc")]
        if any(port.get("hostPort") for port in container.get("ports") or ()):
            found.append(f"{name}: hostPort (use kubectl port-forward)")
        if (container.get("securityContext") or {}).get("privileged"):
            found.append(f"{name}: privileged")
        found += [f"{name}: capability {each}" for each in refused_capabilities(container)]
        if _seccomp(pod, container).get("type") == "Unconfined":
            found.append(f"{name}: seccompProfile Unconfined")
        if not limits and (container.get("resources") or {}).get("limits"):
            found.append(f"{name}: resource limits")
    return found
