"""What a claim holds outlives pods and restarts of the cluster, and goes with the claim."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.local_cluster import LocalCluster, start_cluster
from tests.eventually import eventually

CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shelf}
spec: {accessModes: [ReadWriteOnce], storageClassName: any, resources: {requests: {storage: 1Gi}}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  nodeName: local
  restartPolicy: Never
  containers:
    - name: main
      image: any
      command: [sh, -c, SCRIPT]
      volumeMounts: [{name: shelf, mountPath: /shelf}]
  volumes: [{name: shelf, persistentVolumeClaim: {claimName: shelf}}]
"""


def run_pod(cluster: LocalCluster, name: str, script: str) -> str:
    cluster.kubectl("apply", "-f", "-", stdin=POD.replace("NAME", name).replace("SCRIPT", f'"{script}"'))
    cluster.wait_for(f"pod/{name}", ".status.phase", "Succeeded")
    return cluster.kubectl("logs", name)


def test_a_claim_keeps_its_files_until_it_is_deleted(data_dir: Path) -> None:
    with start_cluster(data_dir) as cluster:
        # The pod may come first: it waits for its claim.
        cluster.kubectl("apply", "-f", "-", stdin=POD.replace("NAME", "early").replace("SCRIPT", "'echo 1 > /shelf/a'"))
        cluster.kubectl("apply", "-f", "-", stdin=CLAIM)
        cluster.wait_for("pvc/shelf", ".status.phase", "Bound")
        cluster.wait_for("pod/early", ".status.phase", "Succeeded")
        assert run_pod(cluster, "next", "cat /shelf/a; echo 2 > /shelf/b") == "1\n"
    with start_cluster(data_dir) as cluster:
        assert run_pod(cluster, "later", "cat /shelf/a /shelf/b") == "1\n2\n"
        kept = list((data_dir / "volumes").iterdir())
        assert len(kept) == 1
        cluster.kubectl("delete", "pvc", "shelf")
        eventually(lambda: not kept[0].exists() and not cluster.names("pv"))


KEYS = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: keys}
spec:
  minAvailable: 1
  plugins: {ssh: [], svc: []}
  tasks:
    - name: worker
      replicas: 2
      template: {spec: {containers: [{name: main, image: any, command: [sleep, infinity]}]}}
"""
THREE = '[{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 3}]'


def test_running_pods_keep_their_keys_when_the_job_is_scaled(data_dir: Path) -> None:
    with start_cluster(data_dir) as cluster:
        cluster.kubectl("apply", "-f", "-", stdin=KEYS)
        cluster.wait_for("vcjob/keys", ".status.running", "2")

        def inside(path: str) -> str:
            return cluster.kubectl("exec", "keys-worker-0", "--", "cat", path)

        files = [f"/root/.ssh/{name}" for name in ("id_rsa", "id_rsa.pub", "authorized_keys", "config")]
        before = [inside(file) for file in files]
        cluster.kubectl("patch", "vcjob", "keys", "--type=json", "-p", THREE)
        eventually(lambda: "keys-worker-2" in inside("/etc/volcano/worker.host"))
        assert [inside(file) for file in files] == before
