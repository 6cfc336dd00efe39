"""A training step of a llama model in plain jax.jit: loss, gradients, AdamW; 8 x 128 tokens.

Written as one would write it for use: stacked layers under lax.scan or a Python loop over them,
jax.checkpoint by choice, parameters and optimizer state donated, f32 master weights and (with
--dtype bf16) bfloat16 products. Serves the protocol of compare.py.
"""

import json
import os
from functools import partial

import common

ROWS, LENGTH = 8, 128
MATRICES = {
    "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj",
    "o": "self_attn.o_proj", "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj",
}  # fmt: skip
NORMS = {"attention_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm"}


def arguments(doc=__doc__):
    parser = common.parser(doc)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--layers", choices=["scan", "unrolled"], default="scan")
    parser.add_argument("--remat", choices=["none", "full", "dots"], default="none")
    return parser


def load_config(directory):
    with open(os.path.join(directory, "config.json")) as f:
        config = json.load(f)
    assert config["model_type"] == "llama" and config["tie_word_embeddings"]
    assert not config.get("rope_scaling") and not config.get("attention_bias")
    return config


def load_parameters(directory, config, stacked):
    """Float32 on the device; matrices as (in, out), a dict for each layer, stacked or listed."""
    import jax
    import numpy as np
    from safetensors.numpy import load_file

    source = load_file(os.path.join(directory, "model.safetensors"))

    def layer(i):
        at = f"model.layers.{i}."
        out = {key: source[at + name + ".weight"].T for key, name in MATRICES.items()}
        return out | {key: source[at + name + ".weight"] for key, name in NORMS.items()}

    layers = [layer(i) for i in range(config["num_hidden_layers"])]
    if stacked:
        layers = jax.tree.map(lambda *leaves: np.stack(leaves), *layers)
    return jax.device_put({
        "embedding": source["model.embed_tokens.weight"],
        "norm": source["model.norm.weight"],
        "layers": layers,
    })  # fmt: skip


def make_loss(config, dtype, stacked, remat):
    """(parameters, tokens [B,T]) -> mean cross-entropy of the next tokens."""
    import jax
    import jax.numpy as jnp
    import optax

    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads

    def rms_norm(x, weight):
        y = x.astype(jnp.float32)
        y = y * jax.lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + config["rms_norm_eps"])
        return weight * y.astype(x.dtype)

    def rope(x, cos, sin):
        a, b = jnp.split(x, 2, -1)
        return x * cos + jnp.concatenate([-b, a], -1) * sin

    def layer(x, w, cos, sin):
        def split(y, n):
            return y.reshape(*y.shape[:-1], n, width)

        h = rms_norm(x, w["attention_norm"])
        q = rope(split(h @ w["q"], heads), cos, sin)
        k = rope(split(h @ w["k"], kv_heads), cos, sin)
        y = jax.nn.dot_product_attention(q, k, split(h @ w["v"], kv_heads), is_causal=True)
        x = x + y.reshape(*y.shape[:-2], -1) @ w["o"]
        h = rms_norm(x, w["mlp_norm"])
        return x + (jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"]

    if remat == "full":
        layer = jax.checkpoint(layer)
    elif remat == "dots":
        policy = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
        layer = jax.checkpoint(layer, policy=policy)

    def loss(parameters, tokens):
        p = jax.tree.map(lambda leaf: leaf.astype(dtype), parameters)
        frequency = config["rope_theta"] ** -(jnp.arange(0, width, 2) / width)
        angle = jnp.arange(tokens.shape[1])[:, None, None] * jnp.tile(frequency, 2)
        cos, sin = jnp.cos(angle).astype(dtype), jnp.sin(angle).astype(dtype)
        x = p["embedding"][tokens]
        if stacked:
            x, _ = jax.lax.scan(lambda x, w: (layer(x, w, cos, sin), None), x, p["layers"])
        else:
            for w in p["layers"]:
                x = layer(x, w, cos, sin)
        logits = (rms_norm(x, p["norm"]) @ p["embedding"].T).astype(jnp.float32)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], tokens[:, 1:])
        return losses.mean()

    return loss


def make_step(config, options):
    """(optimizer, a compiled-on-first-call step(parameters, state, tokens))."""
    import jax
    import jax.numpy as jnp
    import optax

    dtype = jnp.bfloat16 if options.dtype == "bf16" else jnp.float32
    loss = make_loss(config, dtype, options.layers == "scan", options.remat)
    optimizer = optax.adamw(1e-5, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0)

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(parameters, state, tokens):
        value, gradients = jax.value_and_grad(loss)(parameters, tokens)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, value

    return optimizer, step


class Trainer:
    """The state of a run. `step()` dispatches one step and returns its loss, still on its way."""

    def __init__(self, options):
        import jax
        import numpy as np

        config = load_config(options.model)
        self.parameters = load_parameters(options.model, config, options.layers == "scan")
        optimizer, self.compiled_step = make_step(config, options)
        self.state = jax.jit(optimizer.init)(self.parameters)
        self.tokens = np.asarray(common.tokens(ROWS, LENGTH, config["vocab_size"]), np.int32)

    def step(self):
        self.parameters, self.state, loss = self.compiled_step(
            self.parameters, self.state, self.tokens
        )
        return loss


def variant(options):
    return f"jax {options.dtype} {options.layers} remat {options.remat}"


def versions():
    import jax
    import jaxlib

    return {"jax": jax.__version__, "jaxlib": jaxlib.__version__}


def main():
    stream = common.protocol_stream()
    options = arguments().parse_args()
    common.limit_threads(options.threads)
    import jax

    trainer = Trainer(options)

    def repetition():
        loss = trainer.step()
        jax.block_until_ready((trainer.parameters, trainer.state))
        return {"loss": float(loss)}

    common.serve(stream, variant(options), repetition, versions=versions())


if __name__ == "__main__":
    main()
