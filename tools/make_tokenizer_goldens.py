#!/usr/bin/env python3
"""Makes tests/testdata/data/{tiny,sentencepiece}: small tokenizers and what the reference
libraries compute with them. Needs `pip install tokenizers sentencepiece`.

usage: make_tokenizer_goldens.py REPOSITORY
"""
import io
import json
import pathlib
import sys

import sentencepiece
from tokenizers import Tokenizer

MERGES = ["h e", "l l", "ll o", "he llo", "Ġ w", "o r", "or l", "Ġw orl", "Ġworl d", "t h", "i n",
          "in k", "th ink"]
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEXTS = ["", " ", "hello world", "hello  world", "thinking it's 12345 ½²", "h\u00e9llo he\u0301llo",
         "a\nb\r\n\n  c", "x<|im_end|>y <think>in</think>", " <|endoftext|> hello<|im_start|>",
         "\u00a0\u3000\u0085\u180ez", "'S 'ſ 'LL", "中文 日本 😀👨\u200d👩 ١٢٣", "\x00\x1b", "Å ﬁ Ⅳ Åx",
         "word-word_word 1a1 ABwordAB AB  x", "ĠġĢ", "hello   world", "hello\n\n x\n\n",
         "</s>hello<|im_end|> hello <think>word", "\u2581hello\u2581", " \u00e9 中x中中 </s> "]


def alphabet():
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(b) if b in keep else chr(next(spare)) for b in range(256)]


def byte_level(use_regex=False, prefix=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": False,
            "use_regex": use_regex}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def added(token_id, content, **flags):
    entry = {"id": token_id, "content": content, "single_word": False, "lstrip": False,
             "rstrip": False, "normalized": False, "special": False}
    entry.update(flags)
    return entry


def tiny():
    vocab = {c: i for i, c in enumerate(alphabet())}
    for merge in MERGES:
        vocab[merge.replace(" ", "")] = len(vocab)
    tokens = [added(len(vocab) + i, s, special=i < 3) for i, s in enumerate(SPECIALS)]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens,
            "normalizer": None, "pre_tokenizer": sequence(split(PATTERN), byte_level()),
            "post_processor": None, "decoder": byte_level(),
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": vocab, "merges": [m.split(" ") for m in MERGES]}}


def with_bos(base):
    bos = base["added_tokens"][0]
    name = bos["content"]
    processor = {"type": "TemplateProcessing",
                 "single": [{"SpecialToken": {"id": name, "type_id": 0}},
                            {"Sequence": {"id": "A", "type_id": 0}}],
                 "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                          {"Sequence": {"id": "B", "type_id": 1}}],
                 "special_tokens": {name: {"id": name, "ids": [bos["id"]], "tokens": [name]}}}
    return dict(base, post_processor=processor)


def pieces():
    """Settings of a SentencePiece model that was made a tokenizer.json."""
    vocab = {t: i for i, t in enumerate(["<unk>", "<s>", "</s>"])}
    for token in [f"<0x{b:02X}>" for b in range(256)] + [*"helowrdtink\u2581acfx12.\u00e9"]:
        vocab[token] = len(vocab)
    merges = [["h", "e"], ["l", "l"], ["ll", "o"], ["he", "llo"], ["\u2581", "w"], ["o", "r"],
              ["or", "l"], ["\u2581w", "orl"], ["\u2581worl", "d"], ["\u2581", "hello"],
              ["\u2581", "\u2581"], ["\u2581", "t"]]
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    model = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "fuse_unk": True,
             "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "byte_fallback": True, "ignore_merges": False, "vocab": vocab, "merges": merges}
    tokens = [added(i, t, special=True) for i, t in enumerate(["<unk>", "<s>", "</s>"])]
    tokens += [added(len(vocab), "<|im_end|>", special=True), added(len(vocab) + 1, "<think>"),
               added(len(vocab) + 2, "word", normalized=True)]
    back = [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"}]
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    to_marks = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    prepend = {"type": "Sequence",
               "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, to_marks]}

    def metaspace(scheme, cut):
        return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme,
                "split": cut}

    def decoders(*steps):
        return {"type": "Sequence", "decoders": list(steps)}

    def setting(normalizer, pre_tokenizer, decoder, **changed):
        return {"model": dict(model, **changed), "added_tokens": tokens, "normalizer": normalizer,
                "pre_tokenizer": pre_tokenizer, "decoder": decoder}

    return {
        "pieces": setting(prepend, None, decoders(*back, strip)),
        "pieces_first": setting(None, metaspace("first", False), decoders(*back, strip)),
        "pieces_always": setting(None, metaspace("always", True), metaspace("always", True)),
        "pieces_never": setting(None, metaspace("never", False), metaspace("never", False)),
        "pieces_cut": setting(to_marks, split(" ", "MergedWithPrevious", kind="String"),
                              decoders(*back)),
        "pieces_unknown": setting(prepend, None, decoders(*back, strip), byte_fallback=False),
        "pieces_unknown_each": setting(prepend, None, decoders(*back, strip), byte_fallback=False,
                                       fuse_unk=False),
    }


def variants(base):
    """Changes to the tiny tokenizer, each of which exercises one rule of tokenizer.json."""
    flagged = base["added_tokens"] + [
        added(274, "word", single_word=True), added(275, "AB", lstrip=True, rstrip=True),
        added(276, "Åx", normalized=True), added(277, "x<|", special=True)]
    merged = dict(base["model"], ignore_merges=True)
    holes = dict(base["model"], vocab={k: v for k, v in base["model"]["vocab"].items()
                                       if k not in ("Â", "Ã", "x")},
                 unk_token="!", fuse_unk=True)
    return {
        "plain": {}, "bos": {"post_processor": with_bos(base)["post_processor"]},
        "gpt2": {"pre_tokenizer": byte_level(True)},
        "gpt2_prefix_space": {"pre_tokenizer": byte_level(True, True)},
        "llama3": {"pre_tokenizer": sequence(split(LLAMA3), byte_level()), "model": merged},
        "digits": {"pre_tokenizer": sequence({"type": "Digits", "individual_digits": True},
                                             byte_level(True))},
        "digit_runs": {"pre_tokenizer": sequence({"type": "Digits", "individual_digits": False},
                                                 byte_level(True))},
        "removed": {"pre_tokenizer": sequence(split(r"[\s1]", "Removed"), byte_level())},
        "previous": {"pre_tokenizer": sequence(split(r"[l1]", "MergedWithPrevious"), byte_level())},
        "next": {"pre_tokenizer": sequence(split(r"[l1]", "MergedWithNext"), byte_level())},
        "contiguous": {"pre_tokenizer": sequence(split(r"[l1]", "Contiguous"), byte_level())},
        "inverted": {"pre_tokenizer": sequence(split(r"\w+", "Removed", True), byte_level())},
        "literal": {"pre_tokenizer": sequence(split("l", kind="String"), byte_level())},
        "nfc": {"normalizer": {"type": "NFC"}},
        "nfkd": {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"},
                                                                    {"type": "NFKD"}]}},
        "flags": {"added_tokens": flagged, "normalizer": {"type": "NFD"}},
        "unknown": {"model": holes, "added_tokens": []},
        "swallowed": {"added_tokens": base["added_tokens"] + [
            added(259, "hello", rstrip=True), added(274, " "), added(275, "\n\n")]},
        **pieces(),
    }


def run(description):
    tokenizer = Tokenizer.from_str(json.dumps(description))
    cases = []
    for text in TEXTS:
        tokenizer.encode_special_tokens = False
        ids = tokenizer.encode(text).ids
        tokenizer.encode_special_tokens = True
        cases.append({"text": text, "ids": ids, "plain": tokenizer.encode(text).ids,
                      "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                      "skipped": tokenizer.decode(ids, skip_special_tokens=True)})
    return cases


def write(path, value, **style):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=True, **style) + "\n")


def sentencepiece_model(out):
    corpus = ["hello world", "the quick brown fox", "thinking of numbers 1 2 3", "a\u00e9\u4e2d"] * 40
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_writer=model, vocab_size=320, model_type="bpe",
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
        num_threads=1, minloglevel=2)
    out.mkdir(parents=True, exist_ok=True)
    (out / "tokenizer.model").write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    texts = ["hello world", " hello", "the\nfox", "\u4e2d\u6587 \U0001f600", "", "1 2  3", "h\u00e9"]
    write(out / "cases.json", [{"text": t, "ids": processor.encode(t),
                                "decoded": processor.decode(processor.encode(t))} for t in texts],
          indent=1)


def main():
    out = pathlib.Path(sys.argv[1]) / "tests" / "testdata" / "data"
    base = tiny()
    write(out / "tiny" / "tokenizer.json", base)
    write(out / "tiny" / "tokenizer_with_bos.json", with_bos(base))
    goldens = {name: {"change": change, "cases": run(dict(base, **change))}
               for name, change in variants(base).items()}
    write(out / "tiny" / "variants.json", goldens)
    sentencepiece_model(out / "sentencepiece")


main()
