"""The arithmetic of the scheduler: NumPy in, NumPy out. No object of the API is known here."""
