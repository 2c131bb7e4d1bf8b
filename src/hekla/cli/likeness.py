"""Whether a ConfigMap or Secret of the cluster holds what a file says.

Other kinds are not compared: servers write their fields in another form (`1024Mi` becomes `1Gi`) and add some.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

from hekla.api.kinds import CONFIG_MAP, SECRET, Kind, Obj


def is_as_written(kind: Kind, written: Obj, found: Obj) -> bool:
    return kind not in (CONFIG_MAP, SECRET) or _content(kind, written) == _content(kind, found)


def _content(kind: Kind, obj: Obj) -> dict[str, Mapping[str, str]]:
    data, binary = obj.get("data") or {}, _in_one_line(obj.get("binaryData") or {})
    if kind is SECRET:
        # Servers take a Secret's texts and give them back in the form of its bytes.
        texts = {key: b64encode(str(text).encode()).decode() for key, text in (obj.get("stringData") or {}).items()}
        data = {**_in_one_line(data), **texts}
    return {"data": data, "binaryData": binary}


def _in_one_line(coded: Mapping[str, str]) -> Mapping[str, str]:
    """Encoded bytes, which files may have in several: `base64` writes them so."""
    return {key: "".join(str(text).split()) for key, text in coded.items()}
