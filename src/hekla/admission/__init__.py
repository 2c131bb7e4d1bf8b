"""Admission: what is filled in and what is refused when objects of ours are written."""
