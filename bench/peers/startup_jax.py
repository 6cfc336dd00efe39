"""From the start of the process to the dispatch of the first step of train_jax.py, once.

Imports, weights, tracing, compilation and the return of the first call. Prints one line as
compare.py --oneshot reads it, and ends. --cache DIR keeps compiled programs there, for warm runs.
"""

import os

import common
import train_jax


def main():
    stream = common.protocol_stream()
    parser = train_jax.arguments(__doc__)
    parser.add_argument("--cache", metavar="DIR")
    options = parser.parse_args()
    common.limit_threads(options.threads)
    import jax

    if options.cache:
        jax.config.update("jax_compilation_cache_dir", options.cache)
    trainer = train_jax.Trainer(options)
    trainer.step()
    seconds = common.since_process_start()
    name = "startup " + train_jax.variant(options) + (", disk cache" if options.cache else "")
    common.reply(stream, name, seconds, versions=train_jax.versions())
    os._exit(0)  # does not wait for the step itself


if __name__ == "__main__":
    main()
