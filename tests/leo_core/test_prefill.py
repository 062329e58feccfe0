"""A prompt's cost: arithmetic against torch's own counter, the cache against its tensors, memory against sizes known by hand."""

import pytest
import torch

from leo_core.analysis.live_memory import LiveMemory
from leo_core.analysis.prefill import prefill
from leo_core.errors import InputError


def test_counted_and_computed_agree(make_leo):
    model = make_leo()
    measured = [prefill(model, visual, 9, repeats=2) for visual in (0, 3, 40)]
    for one in measured:
        assert one.counted_cache == one.cache_bytes > 0
        assert one.counted_flops == pytest.approx(one.flops, rel=0.05)
        assert 0 < one.fastest <= one.seconds <= one.slowest
        assert one.peak_bytes > one.cache_bytes
    assert [one.positions for one in measured] == [9, 12, 49]
    assert measured[0].peak_bytes < measured[2].peak_bytes and measured[0].flops < measured[1].flops < measured[2].flops


def test_memory_is_the_same_each_time(make_leo):
    model = make_leo()
    assert len({prefill(model, 5, 6, repeats=1).peak_bytes for _ in range(4)}) == 1


def test_a_prompt_needs_text(make_leo):
    with pytest.raises(InputError, match="at least one text token"):
        prefill(make_leo(), 3, 0)


def test_live_memory_is_the_most_at_one_time_and_leaves_out_what_was_there():
    weights = torch.ones(1000)
    with LiveMemory() as memory:
        kept = weights * 2  # 4,000 bytes
        for _ in range(5):
            passing = torch.cat([kept, kept])  # 8,000 more, gone before the next
            del passing
        view = kept[10:]
    assert memory.peak == 12_000 and view.shape == (990,)
    with LiveMemory() as memory:
        weights.add_(1)
        weights.view(10, 100)
    assert memory.peak == 0
    with LiveMemory() as memory:
        for _ in range(50):  # a number becomes a tensor of its own and is gone: its address is free again
            assert float(torch.tensor(3.0) + 1) == 4
        made = weights * 3
    assert memory.peak >= 4000 == made.numel() * 4
