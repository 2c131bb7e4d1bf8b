"""Names by which nodes tell of GPU cards, pods ask for them, and a scheduler says which a pod has got."""

NVIDIA_GPU = "nvidia.com/gpu"  # whole cards, which the node chooses
GPU_MEMORY = "volcano.sh/gpu-memory"  # of a node: all its cards together; of a pod: a part of one card
GPU_NUMBER = "volcano.sh/gpu-number"  # cards
GPU_RESOURCES = (NVIDIA_GPU, GPU_MEMORY, GPU_NUMBER)
GPU_INDEX = "volcano.sh/gpu-index"  # annotation of a pod: its cards, separated by commas
PREDICATE_TIME = "volcano.sh/predicate-time"  # annotation of a pod: when that was, in nanoseconds since the epoch
UNHEALTHY_GPUS = "volcano.sh/gpu-unhealthy-ids"  # annotation of a node: cards not to be used, separated by commas

_DIGITS = 6


def declared_gpus(count: int, memory: int) -> dict[str, str]:
    """How a node tells of its cards: as whole ones, or, given the memory of each, as cards to be shared.

    Never both: who counts one of them would not see those who took a card by the other's name.
    """
    if not count:
        return {}
    if not memory:
        return {NVIDIA_GPU: str(count)}
    return {GPU_NUMBER: str(count), GPU_MEMORY: str(count * memory)}


def read_indexes(text: str) -> tuple[int, ...]:
    """Numbers separated by commas; a text that is anything else names none."""
    parts = [part.strip() for part in text.split(",")]
    return tuple(dict.fromkeys(map(int, parts))) if all(map(_is_index, parts)) else ()


def _is_index(text: str) -> bool:
    return text.isdecimal() and len(text) <= _DIGITS
