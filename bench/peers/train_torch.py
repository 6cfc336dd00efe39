"""A training step of transformers + torch.optim.AdamW: loss, gradients, AdamW; 8 x 128 tokens.

f32, or with --dtype bf16 under torch.autocast with f32 master weights. Serves the protocol of
compare.py.
"""

import common

ROWS, LENGTH = 8, 128


def main():
    stream = common.protocol_stream()
    parser = common.parser(__doc__)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    options = parser.parse_args()
    common.limit_threads(options.threads)
    import torch
    import transformers

    torch.set_num_threads(options.threads)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        options.model, dtype=torch.float32, attn_implementation="sdpa"
    ).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-5, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, fused=True
    )
    tokens = torch.tensor(common.tokens(ROWS, LENGTH, model.config.vocab_size))

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=options.dtype == "bf16"):
            loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        optimizer.step()
        return {"loss": loss.item()}

    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    common.serve(stream, f"torch {options.dtype}", step, versions=versions)


if __name__ == "__main__":
    main()
