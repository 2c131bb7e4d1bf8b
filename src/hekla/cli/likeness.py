"""Whether a ConfigMap or Secret of the cluster holds what a file says.

Other kinds are not compared: servers write their fields in another form (`1024Mi` becomes `1Gi`) and add some.
"""

from __future__ import annotations

from base64 import b64encode

from hekla.api.kinds import CONFIG_MAP, SECRET, Kind, Obj


def is_as_written(kind: Kind, written: Obj, found: Obj) -> bool:
    return kind not in (CONFIG_MAP, SECRET) or _content(written) == _content(found)


def _content(obj: Obj) -> dict[str, dict[str, str]]:
    # Servers take a Secret's texts and give them back in the form of its bytes.
    texts = {key: b64encode(str(text).encode()).decode() for key, text in (obj.get("stringData") or {}).items()}
    return {"data": {**(obj.get("data") or {}), **texts}, "binaryData": obj.get("binaryData") or {}}
