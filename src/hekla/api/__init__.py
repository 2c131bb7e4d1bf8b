"""What the objects are: kinds, names, quantities, selectors. No I/O."""
