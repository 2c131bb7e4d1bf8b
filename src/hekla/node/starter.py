"""Starting containers: fetch what the pod refers to, prepare its sandbox and files, launch.

Every way this can fail ends in a waiting reason a person can read, or, where trying again cannot help, in an attempt
that has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from hekla.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, SERVICE_ACCOUNT, Obj
from hekla.api.meta import name_of, namespace_of, revision_of, timestamp, uid_of
from hekla.client.recorder import NORMAL, WARNING
from hekla.errors import ApiError, Disconnected, NotFound
from hekla.node.commands import remember
from hekla.node.context import NodeContext
from hekla.node.directory import PodDirectory, all_pods, remove_tree
from hekla.node.exec import LaunchError, StillSettingUp
from hekla.node.hooks import env as env_hook
from hekla.node.hooks import gpus, hosts, mounts, volumes
from hekla.node.hooks.capabilities import kept_capabilities
from hekla.node.hooks.images import ImageError, ImageMissing, PullFailed
from hekla.node.hooks.service_env import service_environment
from hekla.node.hooks.sources import MissingSource, Place, Sources, references, token_requests
from hekla.node.isolation import without_namespaces
from hekla.node.living_sources import KINDS
from hekla.node.records import ExitRecord
from hekla.node.refusal import forbidden_host_path
from hekla.node.rootfs import Bind, open_within
from hekla.node.runtime import (
    ContainerRuntime,
    PodRuntime,
    Reason,
    Waiting,
    init_containers,
    main_containers,
    restart_policy,
)
from hekla.node.sandbox import Sandbox, open_sandbox
from hekla.node.shim import START_ERROR, START_ERROR_CODE, ContainerSpec
from hekla.node.switch_client import SwitchError
from hekla.node.unpacking import ReadyImage, ready_image
from hekla.node.user_ids import share

_MESSAGE_FILE = "message"
# As kubelets do: a token is replaced when four fifths of its time are over.
_TOKEN_SHARE = 0.8


@dataclass(frozen=True)
class Outcome:
    """What became of one container that was to be started: an attempt, or a reason to wait."""

    container: ContainerRuntime
    address: str = ""


class Starter:
    def __init__(self, context: NodeContext, directory: PodDirectory) -> None:
        self._context = context
        self._directory = directory
        self._writing = asyncio.Lock()
        settings = context.settings
        self._gpus = gpus.Gpus(settings.first_gpu, settings.gpus, settings.gpu_memory)
        self._shared: set[str] = set()  # volumes that belong to the pod's fsGroup
        self._written: dict[str, int] = {}  # revision of each ConfigMap and Secret in the files, by uid

    async def start(self, pod: Obj, runtime: PodRuntime, names: list[str]) -> list[Outcome]:
        states = [runtime.containers.get(name) or ContainerRuntime(name) for name in names]
        try:
            sandbox = await open_sandbox(self._context, self._directory, pod)
        except SwitchError as error:
            return self._all_wait(pod, states, Reason.CREATING, str(error), "FailedCreatePodSandBox")
        try:
            sources = await self._fetch(pod)
            await self._write_files(pod, sources, sandbox.address)
        except (MissingSource, Disconnected, ApiError, OSError) as error:
            event = "" if tells_of_no_pod(error) else "FailedMount"
            return self._all_wait(pod, states, Reason.CREATING, str(error), event, sandbox.address)
        return [Outcome(await self._start_one(pod, each, sources, sandbox), sandbox.address) for each in states]

    async def refresh(self, pod: Obj) -> None:
        """Write the pod's files anew, with new tokens. Raises what fetching or writing them raises."""
        sources = await self._fetch(pod)
        address = str(self._directory.sandbox().get("address", ""))
        await self._write_files(pod, sources, address)

    def has_written(self, source: Obj) -> bool:
        """Whether the pod's files show this ConfigMap or Secret, or a newer one."""
        return self._written.get(uid_of(source), 0) >= revision_of(source)

    def refresh_after(self, pod: Obj) -> float | None:
        """Seconds until a token of the pod's should be replaced; None where it has none. Reads the files' age."""
        now = self._context.clock.now().timestamp()
        due = [
            path.stat().st_mtime + seconds * _TOKEN_SHARE - now
            for volume in pod["spec"].get("volumes") or ()
            for name, seconds in volumes.token_files(volume)
            if (path := self._directory.volume(volume) / name).exists()
        ]
        return max(0.0, min(due)) if due else None

    async def _start_one(
        self, pod: Obj, state: ContainerRuntime, sources: Sources, sandbox: Sandbox
    ) -> ContainerRuntime:
        container = _find(pod, state.name)
        number = state.next_number
        try:
            image = await self._image(container)
            spec = self._spec(pod, container, number, sources, sandbox, image)
            remember(self._directory, state.name, spec)
        except PullFailed as error:
            return self._wait(pod, state, Reason.PULL_FAILED, str(error))
        except ImageError as error:
            # As kubelets wait for an image. A pod that is to run once and cannot as it is written has failed.
            if isinstance(error, ImageMissing) or restart_policy(pod) != "Never":
                return self._wait(pod, state, Reason.NO_IMAGE, str(error))
            return self._never_started(pod, state, Reason.NO_IMAGE, str(error))
        except (MissingSource, mounts.MountError, gpus.NoFreeGpu) as error:
            return self._wait(pod, state, Reason.CONFIG_ERROR, str(error))
        except OSError as error:
            return self._wait(pod, state, Reason.CREATE_ERROR, str(error))
        try:
            await self._context.launcher.start_container(spec)
        except LaunchError as error:
            if not isinstance(error, StillSettingUp):
                # What cannot be removed now goes with the pod.
                with contextlib.suppress(OSError):
                    await asyncio.to_thread(remove_tree, Path(spec["root"]["scratch"]))
            if self._directory.start_record(state.name, number) is None:
                return self._wait(pod, state, Reason.CREATE_ERROR, str(error))
        record = self._directory.start_record(state.name, number)
        assert record is not None
        self._tell_start(pod, state.name, number)
        return state.started(record)

    async def _image(self, container: Obj) -> ReadyImage:
        images, podman = self._context.images, self._context.podman
        asks_podman = podman is not None and images.find(str(container.get("image") or "")) is None
        # A pull may take an hour, and there may be many: what else pods need must not wait behind them.
        threads = podman.threads if podman is not None and asks_podman else None
        loop, data_dir = asyncio.get_running_loop(), self._directory.data_dir
        return await loop.run_in_executor(threads, ready_image, container, images, data_dir, podman)

    def _tell_start(self, pod: Obj, name: str, number: int) -> None:
        ended = self._directory.exit_record(name, number) or {}
        if ended.get("reason") == START_ERROR:
            self._context.recorder.event(pod, WARNING, "Failed", f"Error: {ended.get('message', '')}")
        else:
            self._context.recorder.event(pod, NORMAL, "Started", f"Started container {name}")

    async def _fetch(self, pod: Obj) -> Sources:
        namespace = namespace_of(pod)
        wanted = references(pod)
        found = await asyncio.gather(
            *(self._context.client.find(KINDS[kind], name, namespace) for kind, name in wanted)
        )
        asked = token_requests(pod)
        issued = await asyncio.gather(*(self._token(pod, *key) for key in asked))
        tokens = dict(zip(asked, issued, strict=True))
        objects = {key: obj for key, obj in zip(wanted, found, strict=True) if obj is not None}
        return Sources(namespace, objects, tokens, await self._directories(pod), await self._services(pod))

    async def _services(self, pod: Obj) -> dict[str, str]:
        relay, known = self._context.api_relay, self._context.services
        env: dict[str, str] = {}
        if known is not None:
            await known.synced()
            env = service_environment(pod, known.all())
        return env | (await relay.environment() if relay is not None else {})

    async def _directories(self, pod: Obj) -> dict[str, Place]:
        """Volumes that are directories of the machine: claims, and paths the node was told to allow."""
        found = {}
        for volume in pod["spec"].get("volumes") or ():
            if volume.get("hostPath"):
                found[volume["name"]] = host_path(volume["hostPath"], self._context.settings.host_paths)
            elif volumes.claimed(volume):
                name = volumes.claimed(volume)
                claim = await self._context.client.find(PERSISTENT_VOLUME_CLAIM, name, namespace_of(pod))
                bound = str(((claim or {}).get("spec") or {}).get("volumeName") or "")
                persistent = await self._context.client.find(PERSISTENT_VOLUME, bound) if bound else None
                allowed = (*self._context.settings.volume_paths, *self._context.settings.host_paths)
                found[volume["name"]] = volumes.directory_behind(claim, persistent, name, allowed)
        return found

    async def _token(self, pod: Obj, audience: str, seconds: int) -> str:
        account = pod["spec"].get("serviceAccountName") or "default"
        reference = {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod)}
        spec: dict[str, Any] = {"expirationSeconds": seconds, "boundObjectRef": reference}
        if audience:
            spec["audiences"] = [audience]
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = SERVICE_ACCOUNT.path(namespace_of(pod), account, "token")
        answer = await self._context.client.raw("POST", path, body=msgspec.json.encode(request))
        return str(msgspec.json.decode(answer.body)["status"]["token"])

    async def _write_files(self, pod: Obj, sources: Sources, address: str) -> None:
        async with self._writing:
            writing = asyncio.create_task(asyncio.to_thread(self._prepare_files, pod, sources, address))
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                # The thread goes on whatever we do: nobody is to remove the files while it writes them.
                await asyncio.gather(writing, return_exceptions=True)
                raise
            self._written |= {uid_of(each): revision_of(each) for each in sources.found.values()}

    def _prepare_files(self, pod: Obj, sources: Sources, address: str) -> None:
        facts = self._facts(address)
        self._directory.make_memory()
        parts = volumes.mounted_in_part(pod)
        for volume in pod["spec"].get("volumes") or ():
            if volume["name"] in sources.paths:
                continue
            path = self._directory.volume(volume)
            if volumes.holds_files(volume):
                try:
                    files = volumes.volume_files(volume, pod, sources, **facts)
                    volumes.write_files(path, files, keep=volume["name"] in parts)
                except MissingSource as error:
                    name = volume["name"]
                    raise MissingSource(f'MountVolume.SetUp failed for volume "{name}" : {error}') from error
            elif not path.exists():
                path.mkdir(parents=True)
                path.chmod(0o777)
        self._share(pod, sources)
        self._directory.etc.mkdir(parents=True, exist_ok=True)
        for name, text in (
            ("hostname", hosts.pod_hostname(pod) + "\n"),
            ("hosts", hosts.hosts_file(pod, address)),
            ("resolv.conf", hosts.resolv_conf(pod, self._context.nameserver)),
        ):
            path = self._directory.etc / name
            # In place: running containers have this very file bound.
            if not path.exists() or path.read_text() != text:
                path.write_text(text)
                path.chmod(0o644)

    def _share(self, pod: Obj, sources: Sources) -> None:
        group = (pod["spec"].get("securityContext") or {}).get("fsGroup")
        if group is None:
            return
        for volume in pod["spec"].get("volumes") or ():
            name = volume["name"]
            # What pods write is theirs: only what we write is given to the group again.
            if not volume.get("hostPath") and (name not in self._shared or volumes.holds_files(volume)):
                place = self._place(volume, sources)
                share(place.root, place.below, int(group), self._context.ids)
                self._shared.add(name)

    def _spec(
        self, pod: Obj, container: Obj, number: int, sources: Sources, sandbox: Sandbox, image: ReadyImage
    ) -> ContainerSpec:
        if not self._context.namespaces and (image.base != "/" or image.above):
            raise ImageError(f"the image's files cannot be shown: {without_namespaces()}")
        uid, gid, groups = _identity(pod, container, image)
        assigned = self._assign_gpus(pod, container)
        base = {
            "PATH": env_hook.DEFAULT_PATH,
            "HOSTNAME": hosts.pod_hostname(pod),
            "HOME": image.home_of(uid),
            **image.environment,
            **sources.services,
            **gpus.variables(assigned, container, self._gpus),
        }
        env = env_hook.build_env(pod, container, sources, base=base, **self._facts(sandbox.address))
        attempt = self._directory.attempt(container["name"], number)
        binds = self._binds(pod, container, attempt, sources, env, gpus=container["name"] in assigned)
        cgroups = self._cgroups(container, number)
        # Every try has its own: one that was given up on, or whose agent is gone, may still be the one that runs.
        (attempt / "scratch").mkdir(parents=True, exist_ok=True)
        scratch = tempfile.mkdtemp(dir=attempt / "scratch")
        (attempt / _MESSAGE_FILE).touch()
        (attempt / _MESSAGE_FILE).chmod(0o666)
        return {
            "directory": os.path.realpath(attempt),
            "identity": {
                "pause": sandbox.process,
                "user_namespace": self._context.user_namespace,
                "ids": self._context.ids,
                "uid": uid,
                "gid": gid,
                "groups": groups,
                "capabilities": kept_capabilities(container),
            },
            "root": {
                "scratch": os.path.realpath(scratch),
                "user_namespace": self._context.user_namespace,
                "base": image.base,
                "above": list(image.above),
                "hidden": list(self._context.hidden),
                "binds": binds,
                "read_only": bool((container.get("securityContext") or {}).get("readOnlyRootFilesystem")),
            },
            "streams": {
                "stdin": bool(container.get("stdin")),
                "stdin_once": bool(container.get("stdinOnce")),
                "tty": bool(container.get("tty")),
            },
            "cgroups": cgroups,
            "message_file": os.path.realpath(attempt / _MESSAGE_FILE),
            "argv": [env_hook.expand(word, env) for word in image.command],
            "env": env,
            "cwd": str(container.get("workingDir") or image.working_dir),
            "about_image": image.about,
        }

    def _assign_gpus(self, pod: Obj, container: Obj) -> gpus.Assignment:
        own = self._directory.gpus()
        # All of this runs in the agent's one thread: nobody else chooses meanwhile.
        others = [each.gpus() for each in all_pods(self._directory.data_dir) if self._is_neighbour(each)]
        assigned = gpus.assign(own, others, pod, container, self._gpus)
        if assigned != own:
            self._directory.write_gpus(assigned)
        return assigned

    def _is_neighbour(self, directory: PodDirectory) -> bool:
        return directory.uid != self._directory.uid and directory.owner().get("node") == self._context.settings.name

    def _cgroups(self, container: Obj, number: int) -> list[str]:
        if self._context.cgroups is None:
            return []
        return self._context.cgroups.create(f"{self._directory.uid}.{container['name']}.{number}", container)

    def _binds(
        self, pod: Obj, container: Obj, attempt: Path, sources: Sources, env: Mapping[str, str], *, gpus: bool
    ) -> list[Bind]:
        every = pod["spec"].get("volumes") or ()
        paths = {volume["name"]: self._place(volume, sources) for volume in every}
        fixed = frozenset(each["name"] for each in every if volumes.is_fixed(each))
        binds = mounts.volume_binds(container, paths, fixed, env)
        if not self._context.namespaces:
            # What every pod is given unasked is not missed by those that never look for it.
            if any(bind["target"] != mounts.API_ACCESS for bind in binds):
                raise mounts.MountError(f"volumes cannot be mounted, pods are plain processes: {without_namespaces()}")
            return []
        where = str(container.get("terminationMessagePath") or "/dev/termination-log")
        message = mounts.message_bind(attempt / _MESSAGE_FILE, where)
        devices = mounts.gpu_binds(self._context.settings.device_files) if gpus else ()
        return [*mounts.file_binds(self._directory.etc, container), *devices, *binds, message]

    def _place(self, volume: Obj, sources: Sources) -> Place:
        return sources.paths.get(volume["name"]) or Place(os.path.realpath(self._directory.volume(volume)))

    def _facts(self, address: str) -> dict[str, Any]:
        return {
            "node": self._context.settings.name,
            "address": address,
            "allocatable": self._context.allocatable,
        }

    def _all_wait(
        self, pod: Obj, states: list[ContainerRuntime], reason: Reason, message: str, event: str, address: str = ""
    ) -> list[Outcome]:
        if event:
            self._context.recorder.event(pod, WARNING, event, message)
        return [Outcome(replace(state, waiting=Waiting(reason, message)), address) for state in states]

    def _wait(self, pod: Obj, state: ContainerRuntime, reason: Reason, message: str) -> ContainerRuntime:
        self._context.recorder.event(pod, WARNING, "Failed", f"Error: {message}")
        return replace(state, waiting=Waiting(reason, message))

    def _never_started(self, pod: Obj, state: ContainerRuntime, reason: Reason, message: str) -> ContainerRuntime:
        """Trying again cannot help: the attempt counts as ended, on record like any other."""
        self._context.recorder.event(pod, WARNING, "Failed", f"Error: {message}")
        now = timestamp(self._context.clock.now())
        record = ExitRecord(code=START_ERROR_CODE, reason=reason, message=message, startedAt=now, finishedAt=now)
        self._directory.write_exit(state.name, state.next_number, record)
        return state.failed_to_start(record)


def tells_of_no_pod(error: Exception) -> bool:
    """Whether no token was issued because the pod is gone: before the watch could say so, which is no failure."""
    return isinstance(error, NotFound) and (error.details or {}).get("kind") == POD.plural


def _find(pod: Obj, name: str) -> Obj:
    return next(each for each in init_containers(pod) + main_containers(pod) if each["name"] == name)


def _identity(pod: Obj, container: Obj, image: ReadyImage) -> tuple[int, int, list[int]]:
    shared = pod["spec"].get("securityContext") or {}
    own = container.get("securityContext") or {}
    uid = own.get("runAsUser", shared.get("runAsUser"))
    gid = own.get("runAsGroup", shared.get("runAsGroup"))
    if uid is None:
        uid, its_group = image.identity()
        gid = its_group if gid is None else gid
    if not uid and own.get("runAsNonRoot", shared.get("runAsNonRoot")):
        raise MissingSource("container has runAsNonRoot and image will run as root")
    groups = [int(each) for each in shared.get("supplementalGroups") or ()]
    if shared.get("fsGroup") is not None:
        groups.append(int(shared["fsGroup"]))
    return int(uid or 0), int(gid or 0), groups


def host_path(source: Obj, allowed: Sequence[Path]) -> Place:
    """Looked at before every start: other pods may have changed what is there. Raises MissingSource."""
    path, kind = Path(source["path"]), str(source.get("type") or "")
    place = volumes.place_within(path, allowed)
    if place is None:
        raise MissingSource(forbidden_host_path(source["path"]))
    try:
        descriptor = open_within(place.root, place.below, create=kind == "DirectoryOrCreate")
    except OSError as error:
        raise MissingSource(f"hostPath type check failed: {path} is not a {kind or 'path'}") from error
    try:
        mode = os.fstat(descriptor).st_mode
    finally:
        os.close(descriptor)
    if (kind == "Directory" and not stat.S_ISDIR(mode)) or (kind == "File" and not stat.S_ISREG(mode)):
        raise MissingSource(f"hostPath type check failed: {path} is not a {kind}")
    return place
