"""The viewer: one run, or two side by side, as one HTML page with everything linked, that opens without a network."""

from studio.viewer.page import Viewer, frame, page, write_page

__all__ = ["Viewer", "frame", "page", "write_page"]
