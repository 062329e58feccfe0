"""Importing leo_core registers LeoMini with the Auto classes; a saved model opens through them."""

import torch
from torch.testing import assert_close
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoProcessor

import leo_core
from leo_core.processor import LeoImageProcessor, LeoProcessor


def test_auto_classes_open_a_saved_model(make_leo, make_features, make_prompts, tmp_path):
    model = make_leo()
    model.save_pretrained(tmp_path / "whole")
    inputs = {**make_prompts([1, 1], [4, 2]), "pictures": make_features(2)}
    assert isinstance(AutoConfig.from_pretrained(tmp_path / "whole"), leo_core.LeoConfig)
    for auto in (AutoModel, AutoModelForCausalLM):
        again = auto.from_pretrained(tmp_path / "whole")
        assert isinstance(again, leo_core.LeoMini)
        with torch.no_grad():
            assert_close(again(**inputs).logits, model(**inputs).logits)


def test_auto_processor_opens_a_saved_processor(tokenizer, make_leo, tmp_path):
    make_leo().save_pretrained(tmp_path / "both")
    processor = LeoProcessor(LeoImageProcessor([{"name": "a", "kind": "onnx"}]), tokenizer, visual_tokens=5)
    processor.save_pretrained(tmp_path / "both")
    again = AutoProcessor.from_pretrained(tmp_path / "both")
    assert isinstance(again, LeoProcessor) and again.visual_tokens == 5
    assert again.image_processor.experts == [{"name": "a", "kind": "onnx"}]
    assert again.plain_ids("What is this?") == processor.plain_ids("What is this?")
