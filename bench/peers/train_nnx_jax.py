"""A training step of a llama model in Flax NNX and Optax: 8 x 128 tokens, f32, AdamW.

Written as Flax's guides do it: modules, nnx.scan over layers made by nnx.vmap (or a Python loop over
a list of them), nnx.Optimizer, one nnx.jit step whose model and optimizer are donated. Serves the
protocol of compare.py: `host` is the CPU time that the calling thread spends on a step.
--first ends with the dispatch of the first step (compare.py --oneshot). --cached takes the step
through nnx.cached_partial, which flattens model and optimizer once.
"""

import os
import time

import common
import train_jax


def arguments():
    parser = common.parser(__doc__)
    parser.add_argument("--layers", choices=["scan", "unrolled"], default="scan")
    parser.add_argument("--rows", type=int, default=train_jax.ROWS)
    parser.add_argument("--tokens", type=int, default=train_jax.LENGTH)
    parser.add_argument("--cached", action="store_true")
    parser.add_argument("--first", action="store_true")
    return parser


def make_model_class(config, stacked):
    import jax
    import jax.numpy as jnp
    from flax import nnx

    hidden, inner = config["hidden_size"], config["intermediate_size"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    width = config.get("head_dim") or hidden // heads
    depth, eps = config["num_hidden_layers"], config["rms_norm_eps"]

    def linear(size_in, size_out, rngs):
        return nnx.Linear(size_in, size_out, use_bias=False, rngs=rngs)

    def rope(x, cos, sin):
        a, b = jnp.split(x, 2, -1)
        return x * cos + jnp.concatenate([-b, a], -1) * sin

    class Layer(nnx.Module):
        def __init__(self, rngs):
            self.attention_norm = nnx.RMSNorm(hidden, epsilon=eps, rngs=rngs)
            self.mlp_norm = nnx.RMSNorm(hidden, epsilon=eps, rngs=rngs)
            self.q = linear(hidden, heads * width, rngs)
            self.k = linear(hidden, kv_heads * width, rngs)
            self.v = linear(hidden, kv_heads * width, rngs)
            self.o = linear(heads * width, hidden, rngs)
            self.gate = linear(hidden, inner, rngs)
            self.up = linear(hidden, inner, rngs)
            self.down = linear(inner, hidden, rngs)

        def __call__(self, x, cos, sin):
            def split(y, n):
                return y.reshape(*y.shape[:-1], n, width)

            h = self.attention_norm(x)
            q = rope(split(self.q(h), heads), cos, sin)
            k = rope(split(self.k(h), kv_heads), cos, sin)
            v = split(self.v(h), kv_heads)
            y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
            x = x + self.o(y.reshape(*y.shape[:-2], -1))
            h = self.mlp_norm(x)
            return x + self.down(jax.nn.silu(self.gate(h)) * self.up(h))

    @nnx.split_rngs(splits=depth)
    @nnx.vmap(in_axes=0, out_axes=0)
    def make_layers(rngs):
        return Layer(rngs)

    @nnx.scan(in_axes=(nnx.Carry, 0, None, None), out_axes=nnx.Carry)
    def run_layers(x, layer, cos, sin):
        return layer(x, cos, sin)

    class Llama(nnx.Module):
        def __init__(self, rngs):
            self.embedding = nnx.Embed(config["vocab_size"], hidden, rngs=rngs)
            self.norm = nnx.RMSNorm(hidden, epsilon=eps, rngs=rngs)
            if stacked:
                self.layers = make_layers(rngs)
            else:
                self.layers = nnx.List([Layer(rngs) for _ in range(depth)])

        def __call__(self, tokens):
            frequency = config["rope_theta"] ** -(jnp.arange(0, width, 2) / width)
            angle = jnp.arange(tokens.shape[1])[:, None, None] * jnp.tile(frequency, 2)
            cos, sin = jnp.cos(angle), jnp.sin(angle)
            x = self.embedding(tokens)
            if stacked:
                x = run_layers(x, self.layers, cos, sin)
            else:
                for layer in self.layers:
                    x = layer(x, cos, sin)
            return self.embedding.attend(self.norm(x))

    return Llama


def load_model(options):
    """The model with the directory's weights."""
    import jax
    from flax import nnx

    config = train_jax.load_config(options.model)
    stacked = options.layers == "scan"
    Llama = make_model_class(config, stacked)
    parameters = train_jax.load_parameters(options.model, config, stacked)
    abstract = nnx.eval_shape(lambda: Llama(nnx.Rngs(0)))
    graph, state = nnx.split(abstract)

    def named(layer):
        norms = {key: {"scale": layer[key]} for key in train_jax.NORMS}
        return norms | {key: {"kernel": layer[key]} for key in train_jax.MATRICES}

    layers = parameters["layers"]
    values = {
        "embedding": {"embedding": parameters["embedding"]},
        "norm": {"scale": parameters["norm"]},
        "layers": named(layers) if stacked else dict(enumerate(map(named, layers))),
    }
    nnx.replace_by_pure_dict(state, values)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(state))
    return config, nnx.merge(graph, state)


class Trainer:
    """The state of a run. `step()` dispatches one step and returns its loss, still on its way."""

    def __init__(self, options):
        import numpy as np
        import optax
        from flax import nnx

        config, self.model = load_model(options)
        transform = optax.adamw(1e-5, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0)
        self.optimizer = nnx.Optimizer(self.model, transform, wrt=nnx.Param)

        def loss_of(model, tokens):
            logits = model(tokens)
            losses = optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], tokens[:, 1:])
            return losses.mean()

        def step(model, optimizer, tokens):
            loss, gradients = nnx.value_and_grad(loss_of)(model, tokens)
            optimizer.update(model, gradients)
            return loss

        compiled = nnx.jit(step, donate_argnums=() if options.cached else (0, 1))
        if options.cached:
            self.call = nnx.cached_partial(compiled, self.model, self.optimizer)
        else:
            self.call = lambda tokens: compiled(self.model, self.optimizer, tokens)
        rows = common.tokens(options.rows, options.tokens, config["vocab_size"])
        self.tokens = np.asarray(rows, np.int32)

    def step(self):
        return self.call(self.tokens)

    def wait(self):
        import jax
        from flax import nnx

        jax.block_until_ready((nnx.state(self.model), nnx.state(self.optimizer)))

    def leaves(self):
        import jax
        from flax import nnx

        return len(jax.tree.leaves((nnx.state(self.model), nnx.state(self.optimizer))))


def versions():
    import flax
    import optax

    return train_jax.versions() | {"flax": flax.__version__, "optax": optax.__version__}


def main():
    stream = common.protocol_stream()
    options = arguments().parse_args()
    common.limit_threads(options.threads)
    trainer = Trainer(options)
    name = f"flax nnx {options.layers}" + (" cached" if options.cached else "")
    if options.first:
        trainer.step()
        common.reply(stream, name, common.since_process_start(), versions=versions())
        os._exit(0)  # does not wait for the step itself

    def repetition():
        before = time.thread_time()
        loss = trainer.step()
        host = time.thread_time() - before
        trainer.wait()
        return {"loss": float(loss), "host": host, "leaves": trainer.leaves()}

    common.serve(stream, name, repetition, versions=versions())


if __name__ == "__main__":
    main()
