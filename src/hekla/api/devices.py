"""Names by which nodes tell of GPU cards, pods ask for them, and a scheduler says which a pod has got."""

GPU_MEMORY = "volcano.sh/gpu-memory"  # of a node: all its cards together; of a pod: a part of one card
GPU_NUMBER = "volcano.sh/gpu-number"  # cards
GPU_INDEX = "volcano.sh/gpu-index"  # annotation of a pod: its cards, separated by commas
PREDICATE_TIME = "volcano.sh/predicate-time"  # annotation of a pod: when that was, in nanoseconds since the epoch
UNHEALTHY_GPUS = "volcano.sh/gpu-unhealthy-ids"  # annotation of a node: cards not to be used, separated by commas
