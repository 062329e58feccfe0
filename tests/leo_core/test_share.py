"""Several processes do all of the work, each item once; a share that is none is refused with what is allowed."""

import pytest

from leo_core.errors import InputError
from leo_core.share import share_of


@pytest.mark.parametrize("of", [1, 2, 3, 7])
def test_the_shares_are_everything_and_each_item_once(of):
    found = [item for share in range(1, of + 1) for item in share_of(range(5), f"{share}/{of}")]
    assert sorted(found) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("text", ["0/2", "3/2", "a/b", "2", "1/0", "-1/2", "", "1/2/3"])
def test_a_share_of_nothing_is_refused(text):
    with pytest.raises(InputError, match="I from 1 to N"):
        share_of([1, 2], text)
