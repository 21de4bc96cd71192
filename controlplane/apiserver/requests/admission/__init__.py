"""Admission: what may change or refuse a request between decoding and storing."""
