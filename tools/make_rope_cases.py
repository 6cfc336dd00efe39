"""Writes tests/testdata/models/rope.json and rope.safetensors: one small Qwen3, spelled in 19 ways
in config.json, and what each spelling means: inverse frequencies, attention factor and the logits
of the last token in float64, or the error. Formulas: transformers 5.24.0, modeling_rope_utils.

usage: make_rope_cases.py OUT_DIRECTORY   (needs numpy)
"""

import json
import math
import os
import struct
import sys

import numpy as np

IDS = list(range(2, 50))
HEADS, KV_HEADS, HEAD_DIM, HIDDEN, INNER, VOCABULARY, LAYERS = 4, 2, 16, 32, 48, 64, 2
EPS = 1e-6
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}


def config(without=(), **changes):
    base = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM,
        "hidden_act": "silu", "max_position_embeddings": 256, "rms_norm_eps": EPS,
        "rope_theta": 1000000.0, "tie_word_embeddings": False, "attention_bias": False,
        "torch_dtype": "float32", "eos_token_id": 1, "bos_token_id": None,
    }
    base.update(changes)
    return {k: v for k, v in base.items() if k not in without}


def weights(seed):
    generator = np.random.Generator(np.random.PCG64(seed))

    def draw(*dims, scale=0.25):
        return (generator.standard_normal(dims) * scale).astype(np.float32)

    def norm(size):
        return 1 + draw(size, scale=0.1)

    out = {"model.embed_tokens.weight": draw(VOCABULARY, HIDDEN, scale=0.7)}
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        out[layer + "input_layernorm.weight"] = norm(HIDDEN)
        attention = layer + "self_attn."
        out[attention + "q_proj.weight"] = draw(HEADS * HEAD_DIM, HIDDEN)
        out[attention + "k_proj.weight"] = draw(KV_HEADS * HEAD_DIM, HIDDEN)
        out[attention + "v_proj.weight"] = draw(KV_HEADS * HEAD_DIM, HIDDEN)
        out[attention + "o_proj.weight"] = draw(HIDDEN, HEADS * HEAD_DIM)
        out[attention + "q_norm.weight"] = norm(HEAD_DIM)
        out[attention + "k_norm.weight"] = norm(HEAD_DIM)
        out[layer + "post_attention_layernorm.weight"] = norm(HIDDEN)
        out[layer + "mlp.gate_proj.weight"] = draw(INNER, HIDDEN)
        out[layer + "mlp.up_proj.weight"] = draw(INNER, HIDDEN)
        out[layer + "mlp.down_proj.weight"] = draw(HIDDEN, INNER)
    out["model.norm.weight"] = norm(HIDDEN)
    out["lm_head.weight"] = draw(VOCABULARY, HIDDEN)
    return out


def rope(theta=1e6, scaling=None):
    """Inverse frequencies and the factor on cos and sin."""
    inv = theta ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    scaling = scaling or {}
    kind, factor = scaling.get("rope_type", "default"), scaling.get("factor", 1.0)
    original = scaling.get("original_max_position_embeddings")
    if kind == "linear":
        return inv / factor, 1.0
    if kind == "llama3":
        wavelength = 2 * np.pi / inv
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        smooth = (original / wavelength - low) / (high - low)
        mixed = (1 - smooth) * inv / factor + smooth * inv
        long, short = wavelength > original / low, wavelength < original / high
        return np.where(long, inv / factor, np.where(short, inv, mixed)), 1.0
    if kind == "yarn":
        def at(turns):
            return HEAD_DIM * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))
        low, high = max(math.floor(at(32)), 0), min(math.ceil(at(1)), HEAD_DIM - 1)
        ramp = np.clip((np.arange(HEAD_DIM // 2) - low) / (high - low), 0, 1)
        attention = scaling.get("attention_factor", 0.1 * math.log(factor) + 1)
        return inv / factor * ramp + inv * (1 - ramp), attention
    return inv, 1.0


def rms(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight


def rotate(x, inv, factor):
    phase = np.arange(x.shape[0])[:, None, None] * inv
    cos, sin = np.cos(phase) * factor, np.sin(phase) * factor
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def attention(x, w, inv, factor):
    def heads(name, count):
        return (x @ w(name + "_proj").T).reshape(len(x), count, HEAD_DIM)
    q = rotate(rms(heads("q", HEADS), w("q_norm")), inv, factor)
    k = rotate(rms(heads("k", KV_HEADS), w("k_norm")), inv, factor)
    v = heads("v", KV_HEADS)
    k, v = (np.repeat(t, HEADS // KV_HEADS, axis=1) for t in (k, v))
    scores = np.einsum("thd,shd->hts", q, k) / math.sqrt(HEAD_DIM)
    scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    out = np.einsum("hts,shd->thd", p / p.sum(-1, keepdims=True), v)
    return out.reshape(len(x), -1) @ w("o_proj").T


def last_logits(tensors, inv, factor):
    def named(prefix):
        return lambda name: tensors[f"{prefix}{name}.weight"].astype(np.float64)
    x = named("model.")("embed_tokens")[IDS]
    for i in range(LAYERS):
        layer = named(f"model.layers.{i}.")
        x = x + attention(rms(x, layer("input_layernorm")), named(f"model.layers.{i}.self_attn."),
                          inv, factor)
        h = rms(x, layer("post_attention_layernorm"))
        gate, up = h @ layer("mlp.gate_proj").T, h @ layer("mlp.up_proj").T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ layer("mlp.down_proj").T
    return rms(x, named("model.")("norm"))[-1] @ named("")("lm_head").T


def cases():
    """Name, config, what it means: the arguments of rope(), or the error's id."""
    linear = {"rope_type": "linear", "factor": 4.0}
    v5 = {"without": ["rope_theta"]}
    given = dict(YARN, attention_factor=1.0, beta_fast=32, beta_slow=1)
    return [
        ("a_old_style", config(), {}),
        ("b_v5_style", config(**v5, rope_parameters={"rope_theta": 1e6, "rope_type": "default"}),
         {}),
        ("c_theta_int", config(rope_theta=1000000), {}),
        ("d_scaling_null", config(rope_scaling=None), {}),
        ("e_no_theta_anywhere", config(**v5), {"theta": 1e4}),
        ("f_linear_type", config(rope_scaling={"type": "linear", "factor": 4.0}),
         {"scaling": linear}),
        ("g_linear_rope_type", config(rope_scaling=linear), {"scaling": linear}),
        ("h_linear_v5", config(**v5, rope_parameters=dict(linear, factor=4, rope_theta=1e6)),
         {"scaling": linear}),
        ("i_yarn", config(rope_scaling=YARN), {"scaling": YARN}),
        ("j_yarn_default_orig", config(max_position_embeddings=64,
                                       rope_scaling={"type": "yarn", "factor": 4.0}),
         {"scaling": YARN}),
        ("k_yarn_att_given", config(rope_scaling=given), {"scaling": given}),
        ("l_llama3", config(rope_scaling=LLAMA3), {"scaling": LLAMA3}),
        ("m_both_fields", config(rope_scaling=linear, rope_parameters={"rope_type": "default",
                                                                       "rope_theta": 1e6}),
         {"scaling": linear}),
        ("n_unknown_type", config(rope_scaling={"rope_type": "wavy", "factor": 2.0}),
         "models.rope_type"),
        ("o_factor_missing", config(rope_scaling={"rope_type": "linear"}),
         "models.config_missing"),
        ("p_theta_string", config(rope_theta="1e6"), {}),
        ("q_eps_string", config(rms_norm_eps="1e-06"), {}),
        # Qwen3's default is 128, which contradicts the stored q_proj.
        ("r_head_dim_absent", config(without=["head_dim"]), "shape"),
        ("s_kv_not_dividing", config(num_key_value_heads=3), "nn.kv_heads"),
    ]


def safetensors(tensors):
    header, blobs, at = {}, [], 0
    for name, tensor in tensors.items():
        blob = tensor.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                        "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(blobs)


def main():
    directory, tensors, rows = sys.argv[1], weights(41), []
    for name, spelling, meaning in cases():
        row = {"name": name, "config": spelling}
        if isinstance(meaning, str):
            row["error"] = meaning
        else:
            inv, factor = rope(**meaning)
            row.update(inv_freq=inv.tolist(), attention_factor=factor,
                       last_logits=last_logits(tensors, inv, factor).tolist())
        rows.append(row)
    with open(os.path.join(directory, "rope.safetensors"), "wb") as f:
        f.write(safetensors(tensors))
    with open(os.path.join(directory, "rope.json"), "w") as f:
        body = ",\n".join(json.dumps(row) for row in rows)
        f.write(f'{{"ids": {json.dumps(IDS)}, "cases": [\n{body}\n]}}\n')


main()
