"""Greedy decoding by transformers' generate: prompts of 40 tokens, 64 new ones each, f32.

End-of-sequence tokens are ignored. --batch prompts at once. Serves the protocol of compare.py.
"""

import common

PROMPT, NEW = 40, 64


def main():
    stream = common.protocol_stream()
    parser = common.parser(__doc__)
    parser.add_argument("--batch", type=int, default=1)
    options = parser.parse_args()
    common.limit_threads(options.threads)
    import torch
    import transformers

    torch.set_num_threads(options.threads)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        options.model, dtype=torch.float32, attn_implementation="sdpa"
    ).eval()
    # No end token at all: cheaper than min_new_tokens, which edits the logits at each step.
    model.generation_config.eos_token_id = None
    tokens = torch.tensor(common.tokens(options.batch, PROMPT, model.config.vocab_size))
    prompts = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}

    def generate():
        with torch.inference_mode():
            out = model.generate(**prompts, do_sample=False, max_new_tokens=NEW)
        new = out[:, PROMPT:]
        assert new.shape == (options.batch, NEW)
        return {"work": new.numel(), "unit": "tokens", "first_tokens": new[0, :8].tolist()}

    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    common.serve(stream, f"transformers greedy batch {options.batch}", generate, versions=versions)


if __name__ == "__main__":
    main()
