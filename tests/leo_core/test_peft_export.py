"""A LoRA expert in peft: general and expert both active give the logits of the model forced to that route."""

import pytest
import torch
from peft import PeftModel
from torch.testing import assert_close

from leo_core.errors import CheckpointError, InputError
from leo_core.peft_export import export_expert, import_expert
from leo_core.tracing.intervene import Interventions, intervene


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
@pytest.mark.parametrize("expert", [0, 2])
def test_general_and_expert_in_peft_are_the_forced_route(make_leo, make_decoder, make_features, make_prompts, tmp_path, kind, expert):
    model = make_leo(kind)
    inputs = {**make_prompts([1], [4]), "pictures": make_features(1)}
    with torch.no_grad(), intervene(model, Interventions(force_route={-1: expert})):
        prompt = model.prompt(**{name: inputs[name] for name in ("input_ids", "attention_mask", "question_mask", "pictures", "picture_owner")})
        forced = model(**inputs).logits
    export_expert(model, "general", tmp_path / "general")
    export_expert(model, expert, tmp_path / "expert")
    decoder = PeftModel.from_pretrained(make_decoder(kind), tmp_path / "general", adapter_name="general")
    decoder.load_adapter(tmp_path / "expert", adapter_name="expert")
    decoder.base_model.set_adapter(["general", "expert"])
    with torch.no_grad():
        theirs = decoder.eval()(inputs_embeds=prompt.embeds, attention_mask=prompt.attention_mask).logits
    assert_close(theirs, forced, atol=1e-5, rtol=1e-5)


def test_an_adapter_comes_back_as_it_went(make_leo, tmp_path):
    first, second = make_leo(seed=0), make_leo(seed=1)
    export_expert(first, 1, tmp_path / "one")
    import_expert(second, 2, tmp_path / "one")
    export_expert(second, 2, tmp_path / "two")
    assert (tmp_path / "one" / "adapter_model.safetensors").read_bytes() == (tmp_path / "two" / "adapter_model.safetensors").read_bytes()


def test_what_does_not_exist_or_fit_is_refused_in_words(make_leo, tmp_path):
    from leo_core.config import MMoEConfig

    model = make_leo()
    with pytest.raises(InputError, match="general, 0 to 2"):
        export_expert(model, 3, tmp_path / "none")
    export_expert(model, 0, tmp_path / "rank4")
    with pytest.raises(CheckpointError, match="rank 4"):
        import_expert(make_leo(mmoe=MMoEConfig(rank=2, alpha=8.0, router_width=8)), 0, tmp_path / "rank4")
