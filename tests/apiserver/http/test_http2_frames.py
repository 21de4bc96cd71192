"""Frames made by hand are what the library reads."""

from hyperframe.frame import DataFrame, Frame, GoAwayFrame
from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.http.http2_frames import data_frames, goaway


def frames(data: bytes) -> list[Frame]:
    found = []
    while data:
        frame, length = Frame.parse_frame_header(memoryview(data[:9]))
        frame.parse_body(memoryview(data[9 : 9 + length]))
        found.append(frame)
        data = data[9 + length :]
    return found


@given(st.integers(1, (1 << 31) - 1), st.binary(max_size=500), st.integers(1, 100))
def test_data_is_cut_into_frames_that_do_not_end_the_stream(number, data, size):
    found = frames(bytes(data_frames(number, memoryview(data), size)))
    assert b"".join(frame.data for frame in found) == data
    assert all(isinstance(frame, DataFrame) and not frame.flags for frame in found)
    assert {frame.stream_id for frame in found} <= {number}
    assert all(len(frame.data) == size for frame in found[:-1])


def test_goaway_names_the_last_stream_and_the_reason():
    (frame,) = frames(goaway(7, 11))
    assert isinstance(frame, GoAwayFrame)
    assert (frame.stream_id, frame.last_stream_id, frame.error_code) == (0, 7, 11)
