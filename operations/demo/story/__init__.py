"""The demo that tells a story: eight scenes on a fleet of 1,200 nodes, each with its caption.

`scenes` is the list in order; each scene acts through the front doors alone, waits until what its
caption says has been seen, and fails when it is not. `stage` holds the connections, `work` what
is submitted, `narrator` what is printed: a progress display on a terminal, lines in a pipe.
"""

from operations.demo.story.run import story
from operations.demo.story.stage import SceneFailed

__all__ = ["SceneFailed", "story"]
