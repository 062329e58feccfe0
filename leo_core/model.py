"""LeoMini: vision experts, reducer, projector and a decoder whose down projections carry routed LoRA experts.

Read in the order a picture travels: `reduce` (experts' tokens to N^V), `project` (to the decoder's width), `prompt`
(visual tokens into their places, and what the routers see), `forward` (the decoder and the losses), `generate`.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from leo_core.config import LeoConfig
from leo_core.errors import InputError
from leo_core.experts.expert import PictureFeatures, VisionExperts
from leo_core.mmoe import install_mmoe
from leo_core.projector import build_projector
from leo_core.reducers import build_reducer
from leo_core.routing import RoutingContext, balance_loss, reentering, routing_context


@dataclass
class LeoOutput(CausalLMOutputWithPast):
    """The decoder's output. loss = cross-entropy + balance_weight * balance; balance: the balance loss alone."""

    balance: Float[Tensor, ""] | None = None


@dataclass(frozen=True)
class Prompt:
    """A question with its visual tokens in place, ready for the decoder.

    embeds, attention_mask, position_ids: decoder inputs; a dropped visual token is masked and keeps its position.
    visual, text, has_picture: what every router sees of each sample.
    """

    embeds: Float[Tensor, "b s d"]
    attention_mask: Int[Tensor, "b s"]
    position_ids: Int[Tensor, "b s"]
    visual: Float[Tensor, "b d"]
    text: Float[Tensor, "b d"]
    has_picture: Bool[Tensor, "b"]


class LeoMini(PreTrainedModel, GenerationMixin):
    """LEO-Mini over any causal language model of transformers whose blocks have an `mlp.down_proj`.

    vision_experts: finished experts, or None for a model that is only fed features. decoder: a finished causal LM; with
    None one is made at random from config.text_config. Checkpoints: leo_core.checkpoint.
    """

    config_class = LeoConfig
    base_model_prefix = "leo"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    origin: dict[str, str] = {"model": "unnamed"}
    """Name and hash of the checkpoint, set by whoever loads one: where a run's numbers come from."""

    def __init__(self, config: LeoConfig, decoder: PreTrainedModel | None = None, vision_experts: VisionExperts | None = None, widths=None):
        attention = config.text_config._attn_implementation
        super().__init__(config)
        if config.text_config._attn_implementation is None:  # a composite config resets a finished decoder's choice
            config.text_config._attn_implementation = attention or "sdpa"
        widths = tuple(widths or (vision_experts.widths if vision_experts is not None else config.expert_widths))
        config.expert_widths = list(widths)
        text_width = config.text_config.hidden_size
        self.vision_experts = vision_experts
        self.reducer = build_reducer(widths, text_width, config.reducer_config)
        self.projector = build_projector(sum(widths), text_width, config.reducer_config.tokens, config.projector_config)
        self.decoder = decoder if decoder is not None else AutoModelForCausalLM.from_config(config.text_config)
        self.generation_config = self.decoder.generation_config
        install_mmoe(self.decoder, text_width, config.mmoe_config)

    @classmethod
    def from_pretrained(cls, path, *args, config=None, dtype=torch.float32, device="cpu", parts=None, **unused):
        """A checkpoint's model in evaluation mode (see leo_core.checkpoint.load_model, which also says what may be missing)."""
        from leo_core.checkpoint import load_model  # the model knows no files; only this door leads there

        return load_model(path, parts=parts, device=device, dtype=dtype if isinstance(dtype, torch.dtype) else torch.float32, config=config)

    def save_pretrained(self, folder, trained_only: bool = False, **options):
        """Write the whole model, or only what was trained (leo_core.saving.save_model)."""
        from leo_core.saving import save_model

        save_model(self, folder, trained_only=trained_only, **{k: v for k, v in options.items() if k in ("dtype", "extra")})

    def get_input_embeddings(self):
        return self.decoder.get_input_embeddings()

    def get_output_embeddings(self):
        return self.decoder.get_output_embeddings()

    def _set_gradient_checkpointing(self, enable=True, gradient_checkpointing_func=checkpoint, **options):
        if getattr(gradient_checkpointing_func, "keywords", {}).get("use_reentrant"):
            raise InputError("Reentrant activation checkpointing cuts the balance loss off from the routers: use use_reentrant=False.")
        super()._set_gradient_checkpointing(enable, reentering(gradient_checkpointing_func), **options)

    # --- from pictures to visual tokens ---

    def reduce(
        self,
        pictures: PictureFeatures,
        input_ids: Int[Tensor, "b s"],
        question_mask: Bool[Tensor, "b s"],
        picture_owner: Int[Tensor, "p"],
        expert_mask: Bool[Tensor, "p m"] | None = None,
    ) -> tuple[Float[Tensor, "p v d"], ...]:
        """Reduced tokens of each expert before the concat. picture_owner: which sample each picture belongs to."""
        text, mask = self.question(input_ids, question_mask)
        return self.reducer(pictures.to(text.device, text.dtype), text[picture_owner], mask[picture_owner], expert_mask)

    def question(self, input_ids: Tensor, question_mask: Tensor) -> tuple[Float[Tensor, "b s d"], Bool[Tensor, "b s"]]:
        """T: embeddings of the prompt and which of them are the user's question."""
        return self.get_input_embeddings()(input_ids), question_mask.bool()

    def project(self, reduced: tuple[Float[Tensor, "p v d"], ...]) -> Float[Tensor, "p v d"]:
        """Visual tokens in the decoder's width, from the experts' tokens joined along channels."""
        return self.projector(torch.cat(reduced, dim=-1))

    def prompt(
        self, input_ids, attention_mask=None, question_mask=None, pictures=None, picture_owner=None,
        expert_mask=None, visual_mask=None, reduced=None,
    ) -> Prompt:  # fmt: skip
        """Everything the decoder needs. reduced: tokens from `reduce`, computed before (or changed).

        visual_mask: (p, v), False = the visual token is dropped: masked in attention, its position kept, left out of the
        routers' context. Raises InputError when placeholders and visual tokens do not match.
        """
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        asked = torch.zeros_like(input_ids) if question_mask is None else question_mask
        embeds, asked = self.question(input_ids, asked)
        text = torch.einsum("bsd,bs->bd", embeds, asked.to(embeds)) / asked.sum(1, keepdim=True).clamp(min=1)
        position_ids = (mask.cumsum(-1) - 1).clamp(min=0)
        visual = embeds.new_zeros(embeds.shape[0], embeds.shape[-1])
        count = embeds.new_zeros(embeds.shape[0])
        if pictures is None and reduced is None:
            self._check_places(input_ids, count)
            return Prompt(embeds, mask, position_ids, visual, text, count.bool())
        if picture_owner is None:
            picture_owner = torch.arange(len(input_ids), device=input_ids.device)
        if reduced is None:
            reduced = self.reduce(pictures, input_ids, asked, picture_owner, expert_mask)
        tokens = self.project(reduced).to(embeds)
        places = self._check_places(input_ids, count.index_add(0, picture_owner, count.new_ones(len(tokens))))
        embeds = embeds.masked_scatter(places[..., None], tokens)
        kept = tokens.new_ones(tokens.shape[:2]) if visual_mask is None else visual_mask.to(tokens)
        visual = visual.index_add(0, picture_owner, torch.einsum("pvd,pv->pd", tokens, kept).to(visual))  # autocast may round
        count = count.index_add(0, picture_owner, kept.sum(dim=1))
        attended = mask.masked_scatter(places, kept.to(mask).flatten())
        return Prompt(embeds, attended, position_ids, visual / count.clamp(min=1)[:, None], text, count > 0)

    def _check_places(self, input_ids: Tensor, pictures: Tensor) -> Bool[Tensor, "b s"]:
        places = input_ids == self.config.image_token_id
        wanted = pictures.long() * self.reducer.tokens
        if not torch.equal(places.sum(dim=1), wanted):
            raise InputError(
                f"The prompts hold {places.sum(dim=1).tolist()} picture places, but their pictures need {wanted.tolist()} "
                f"({self.reducer.tokens} for each picture): let the processor build the prompt."
            )
        return places

    # --- the decoder ---

    def forward(
        self,
        input_ids: Int[Tensor, "b s"] | None = None,
        attention_mask: Int[Tensor, "b s"] | None = None,
        question_mask: Bool[Tensor, "b s"] | None = None,
        pictures: PictureFeatures | None = None,
        picture_owner: Int[Tensor, "p"] | None = None,
        expert_mask: Bool[Tensor, "p m"] | None = None,
        visual_mask: Bool[Tensor, "p v"] | None = None,
        reduced: tuple[Float[Tensor, "p v d"], ...] | None = None,
        inputs_embeds: Float[Tensor, "b s d"] | None = None,
        position_ids: Int[Tensor, "b s"] | None = None,
        labels: Int[Tensor, "b s"] | None = None,
        routing_visual: Float[Tensor, "b d"] | None = None,
        routing_text: Float[Tensor, "b d"] | None = None,
        routing_picture: Bool[Tensor, "b"] | None = None,
        **decoder_options,
    ) -> LeoOutput:
        """Next-token logits (b, s, vocabulary), and the loss when labels are given (-100 = not counted).

        A full pass gives input_ids, question_mask and the pictures. Cached decoding, arranged by `generate`, gives the
        routers' view of the prompt instead (routing_visual, routing_text, routing_picture).
        """
        if routing_visual is None:
            if input_ids is None:
                raise InputError("LeoMini needs input_ids (the processor makes them); inputs_embeds alone hide the question.")
            prompt = self.prompt(input_ids, attention_mask, question_mask, pictures, picture_owner, expert_mask, visual_mask, reduced)
            inputs_embeds, input_ids, attention_mask = prompt.embeds, None, prompt.attention_mask
            position_ids = prompt.position_ids if position_ids is None else position_ids
            routing_visual, routing_text, routing_picture = prompt.visual, prompt.text, prompt.has_picture
        balancing = labels is not None and self.config.mmoe_config.balance != "none"
        valid = attention_mask.bool() & routing_picture[:, None] if balancing else None
        context = RoutingContext(routing_visual, routing_text, routing_picture, valid, [] if balancing else None)
        with routing_context(context):
            output = self.decoder(
                input_ids=input_ids, inputs_embeds=inputs_embeds, attention_mask=attention_mask,
                position_ids=position_ids, **decoder_options,
            )  # fmt: skip
        loss = balance = None
        if labels is not None:
            counted = labels[:, -output.logits.shape[1] :]  # logits_to_keep may leave only the last positions
            loss = cross_entropy(output.logits[:, :-1].flatten(0, 1).float(), counted[:, 1:].flatten())
        if balancing and context.decisions:
            balance = balance_loss(context.decisions, valid, self.config.mmoe_config)
            loss = loss + self.config.mmoe_config.balance_weight * balance
        return LeoOutput(**{**output, "loss": loss, "balance": balance})

    @torch.no_grad()
    def generate(
        self, input_ids, attention_mask=None, question_mask=None, pictures=None, picture_owner=None,
        expert_mask=None, visual_mask=None, reduced=None, **options,
    ):  # fmt: skip
        """As in transformers (KV cache, beams, streamers); returns the prompt's ids followed by the new ones.

        The routers' view of the prompt rides along as keyword arguments, so beams expand it with everything else.
        """
        prompt = self.prompt(input_ids, attention_mask, question_mask, pictures, picture_owner, expert_mask, visual_mask, reduced)
        return super().generate(
            input_ids=input_ids, inputs_embeds=prompt.embeds, attention_mask=prompt.attention_mask, position_ids=prompt.position_ids,
            routing_visual=prompt.visual, routing_text=prompt.text, routing_picture=prompt.has_picture, **options,
        )  # fmt: skip
