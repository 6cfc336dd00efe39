"""Writes the GGUF golden files of room weights.

usage: make_gguf_golden.py OUTDIR          (tests/testdata/weights)
needs: pip install gguf==0.19.0 numpy safetensors

gguf_blocks.gguf    random blocks NAME of every served type, beside NAME.expected: what PyPI gguf
                    dequantises them to.
tiny_llama.gguf     a llama model as llama.cpp's converter lays it out (rows of q and k in
                    adjacent-pair order, Llama 3 frequency divisors), beside tiny_llama.safetensors:
                    the same model under Hugging Face's names and row order.
tiny_qwen3.gguf     likewise for qwen3: tied, F16 and BF16 tensors.
"""

import math
import pathlib
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from safetensors.numpy import save_file

ROWS = 4
ROW_ELEMENTS = 256
# Byte positions of the f16 fields in a block; random bits there would mostly be huge or NaN.
SCALES = {Type.Q8_0: [0], Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q4_K: [0, 2], Type.Q6_K: [208]}


def random_halves(rng, count):
    """Normal, tiny (subnormal) and zero f16 values of both signs."""
    values = rng.standard_normal(count).astype(np.float16)
    values[rng.random(count) < 0.2] *= np.float16(2.0**-16)
    values[rng.random(count) < 0.05] = np.float16(-0.0)
    return values


def random_blocks(rng, kind):
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    count = ROWS * ROW_ELEMENTS // elements
    if kind == Type.F32:
        return rng.standard_normal((ROWS, ROW_ELEMENTS)).astype(np.float32).view(np.uint8)
    if kind == Type.F16:
        values = random_halves(rng, ROWS * ROW_ELEMENTS)
        values[:4] = [np.inf, -np.inf, 65504, 2.0**-24]
        return values.view(np.uint8).reshape(ROWS, -1)
    if kind == Type.BF16:
        values = rng.standard_normal((ROWS, ROW_ELEMENTS)).astype(np.float32)
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in SCALES[kind]:
        blocks[:, at : at + 2] = random_halves(rng, count).view(np.uint8).reshape(count, 2)
    return blocks.reshape(ROWS, -1)


def write(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_blocks(out):
    rng = np.random.default_rng(20240607)
    writer = gguf.GGUFWriter(out / "gguf_blocks.gguf", "none")
    for kind in [Type.F32, Type.F16, Type.BF16, *SCALES]:
        blocks = random_blocks(rng, kind)
        writer.add_tensor(kind.name, blocks, raw_dtype=kind)
        expected = gguf.quants.dequantize(blocks, kind).reshape(ROWS, ROW_ELEMENTS)
        assert not np.isnan(expected).any()
        writer.add_tensor(kind.name + ".expected", expected.astype(np.float32))
    write(writer)


def adjacent_pairs(rows, heads):
    """Hugging Face's half-split row order to the adjacent-pair order of llama GGUF files."""
    shape = rows.shape
    return rows.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


class Model:
    """Adds each tensor to the GGUF file and, decoded and in the original order, to `expected`."""

    def __init__(self, path, architecture, seed):
        self.rng = np.random.default_rng(seed)
        self.writer = gguf.GGUFWriter(path, architecture)
        self.expected = {}

    def add(self, name, hf_name, shape, kind=Type.F32, pair_heads=0):
        values = self.rng.standard_normal(shape).astype(np.float32)
        blocks = gguf.quants.quantize(values, kind)
        decoded = gguf.quants.dequantize(blocks, kind).reshape(shape)
        self.expected[hf_name] = np.ascontiguousarray(decoded.astype(np.float32))
        if pair_heads:
            blocks = adjacent_pairs(blocks, pair_heads)
        self.writer.add_tensor(name, np.ascontiguousarray(blocks), raw_dtype=kind)

    def finish(self, path):
        write(self.writer)
        save_file(self.expected, path)


def add_tokenizer(writer, pre):
    """Three control tokens, one user-defined, five letters, two merges, one unused."""
    tokens = ["<s>", "</s>", "<|eot|>", "<tool>", "a", "b", "c", "Ġ", "1", "ab", "abc", "[PAD11]"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3, 4, 1, 1, 1, 1, 1, 1, 1, 5])
    writer.add_token_merges(["a b", "ab c"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)


def llama3_divisors(base, dim, factor, low, high, positions):
    """What llama.cpp's converter stores for Llama 3 rope scaling."""
    divisors = []
    for i in range(0, dim, 2):
        wavelen = 2 * math.pi * base ** (i / dim)
        if wavelen < positions / high:
            divisors.append(1.0)
        elif wavelen > positions / low:
            divisors.append(factor)
        else:
            smooth = (positions / wavelen - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(divisors, dtype=np.float32)


def write_llama(out):
    width, hidden, heads, kv, dim, vocab = 32, 64, 4, 2, 32, 16
    m = Model(out / "tiny_llama.gguf", "llama", 1)
    w = m.writer
    w.add_block_count(1)
    w.add_context_length(131072)
    w.add_embedding_length(width)
    w.add_feed_forward_length(hidden)
    w.add_head_count(heads)
    w.add_head_count_kv(kv)
    w.add_key_length(dim)
    w.add_value_length(dim)
    w.add_rope_dimension_count(dim)
    w.add_rope_freq_base(500000.0)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_vocab_size(vocab)
    add_tokenizer(w, "llama-bpe")
    w.add_eot_token_id(2)
    w.add_chat_template("{{ messages[0]['content'] }}")
    w.add_tensor("rope_freqs.weight", llama3_divisors(500000.0, dim, 8.0, 1.0, 4.0, 8192))
    m.add("token_embd.weight", "model.embed_tokens.weight", (vocab, width), Type.Q8_0)
    at, to = "blk.0.", "model.layers.0."
    m.add(at + "attn_norm.weight", to + "input_layernorm.weight", (width,))
    for name, hf, rows, pairs in [
        ("attn_q", "q_proj", heads * dim, heads),
        ("attn_k", "k_proj", kv * dim, kv),
        ("attn_v", "v_proj", kv * dim, 0),
    ]:
        hf = to + "self_attn." + hf
        m.add(at + name + ".weight", hf + ".weight", (rows, width), Type.Q4_0, pairs)
        m.add(at + name + ".bias", hf + ".bias", (rows,), Type.F32, pairs)
    hf = to + "self_attn.o_proj"
    m.add(at + "attn_output.weight", hf + ".weight", (width, heads * dim), Type.Q4_1)
    m.add(at + "attn_output.bias", hf + ".bias", (width,))
    m.add(at + "ffn_norm.weight", to + "post_attention_layernorm.weight", (width,))
    for name, rows, columns in [
        ("gate", hidden, width),
        ("up", hidden, width),
        ("down", width, hidden),
    ]:
        m.add(f"{at}ffn_{name}.weight", f"{to}mlp.{name}_proj.weight", (rows, columns), Type.Q8_0)
    m.add("output_norm.weight", "model.norm.weight", (width,))
    m.add("output.weight", "lm_head.weight", (vocab, width), Type.F16)
    m.finish(out / "tiny_llama.safetensors")


def write_qwen3(out):
    width, hidden, heads, kv, dim, vocab = 32, 32, 2, 1, 16, 12
    m = Model(out / "tiny_qwen3.gguf", "qwen3", 2)
    w = m.writer
    w.add_block_count(2)
    w.add_context_length(512)
    w.add_embedding_length(width)
    w.add_feed_forward_length(hidden)
    w.add_head_count(heads)
    w.add_head_count_kv(kv)
    w.add_key_length(dim)
    w.add_value_length(dim)
    w.add_rope_freq_base(1000000.0)
    w.add_layer_norm_rms_eps(1e-6)
    add_tokenizer(w, "qwen2")
    m.add("token_embd.weight", "model.embed_tokens.weight", (vocab, width), Type.BF16)
    for i in range(2):
        at, to = f"blk.{i}.", f"model.layers.{i}."
        m.add(at + "attn_norm.weight", to + "input_layernorm.weight", (width,))
        m.add(at + "attn_q.weight", to + "self_attn.q_proj.weight", (heads * dim, width), Type.F16)
        m.add(at + "attn_k.weight", to + "self_attn.k_proj.weight", (kv * dim, width), Type.F16)
        m.add(at + "attn_v.weight", to + "self_attn.v_proj.weight", (kv * dim, width), Type.BF16)
        m.add(at + "attn_q_norm.weight", to + "self_attn.q_norm.weight", (dim,))
        m.add(at + "attn_k_norm.weight", to + "self_attn.k_norm.weight", (dim,))
        m.add(at + "attn_output.weight", to + "self_attn.o_proj.weight", (width, heads * dim),
              Type.F16)
        m.add(at + "ffn_norm.weight", to + "post_attention_layernorm.weight", (width,))
        for name, rows, columns in [
            ("gate", hidden, width),
            ("up", hidden, width),
            ("down", width, hidden),
        ]:
            m.add(f"{at}ffn_{name}.weight", f"{to}mlp.{name}_proj.weight", (rows, columns),
                  Type.Q8_0)
    m.add("output_norm.weight", "model.norm.weight", (width,))
    m.finish(out / "tiny_qwen3.safetensors")


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    write_blocks(out)
    write_llama(out)
    write_qwen3(out)


if __name__ == "__main__":
    main()
