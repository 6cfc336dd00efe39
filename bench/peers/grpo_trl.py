"""Optimizer steps of TRL's GRPOTrainer: 2 prompts x 8 completions of at most 16 tokens, f32.

End to end: sampling, rewards, gradients, AdamW; beta 0; integer addition with the prompts of
examples/arithmetic.toml. Serves the protocol of compare.py: one optimizer step for each `go`.
"""

import random
import re
import sys
import tempfile
import time

import common

PROMPTS, GROUP, MAX_NEW = 2, 8, 16


def problems():
    pairs = [(a, b) for a in range(21) for b in range(21)]
    random.Random(1).shuffle(pairs)
    return [
        {
            "prompt": [
                {"role": "user", "content": f"What is {a} + {b}? Answer with the number only."}
            ],
            "answer": str(a + b),
        }
        for a, b in pairs
    ]


def shaped_reward(completions, completion_ids, answer, eos, **_):
    """Half the share of right digits of the last integer, half for right and finished."""
    rewards = []
    for completion, ids, right in zip(completions, completion_ids, answer):
        found = re.findall(r"\d+", completion[0]["content"])
        given = found[-1].lstrip("0") or "0" if found else ""
        places = zip(reversed(given), reversed(right))
        share = sum(x == y for x, y in places) / max(len(given), len(right))
        rewards.append(0.5 * share + 0.5 * (given == right and ids[-1] == eos))
    return rewards


def serving_callback(base, stream, facts):
    """A trainer callback: waits for `go` before each step, replies with `facts` after it."""

    class Serving(base):
        started = 0.0

        def on_step_begin(self, args, state, control, **_):
            if sys.stdin.readline().strip() != "go":
                raise SystemExit(0)
            self.started = time.perf_counter()

        def on_step_end(self, args, state, control, **_):
            seconds = time.perf_counter() - self.started
            common.reply(stream, "trl grpo f32", seconds, **facts)

    return Serving()


def main():
    stream = common.protocol_stream()
    options = common.parser(__doc__).parse_args()
    common.limit_threads(options.threads)
    import datasets
    import torch
    import transformers
    import trl

    torch.set_num_threads(options.threads)
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
    scratch = tempfile.TemporaryDirectory()
    config = trl.GRPOConfig(
        output_dir=scratch.name,
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=PROMPTS * GROUP,
        num_generations=GROUP,
        max_completion_length=MAX_NEW,
        temperature=1.0,
        beta=0.0,
        learning_rate=1e-6,
        weight_decay=0.0,
        lr_scheduler_type="constant",
        gradient_checkpointing=False,
        max_steps=1_000_000,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        model_init_kwargs={"dtype": torch.float32, "attn_implementation": "sdpa"},
    )

    facts = {"versions": {p.__name__: p.__version__ for p in (torch, transformers, trl)}}

    def reward(completions, completion_ids, answer, **_):
        rewards = shaped_reward(completions, completion_ids, answer, tokenizer.eos_token_id)
        facts.update(work=sum(map(len, completion_ids)), unit="completion tokens")
        facts.update(reward=sum(rewards) / len(rewards))
        return rewards

    trl.GRPOTrainer(
        model=options.model,
        args=config,
        processing_class=tokenizer,
        reward_funcs=reward,
        train_dataset=datasets.Dataset.from_list(problems()),
        callbacks=[serving_callback(transformers.TrainerCallback, stream, facts)],
    ).train()


if __name__ == "__main__":
    main()
