"""What a real cluster already has and the embedded server lacks: owner garbage collection and the like."""
