"""Checks of a benchmark's arguments, before anything runs. Each ends the process with status 2, option and remedy.

least(parser, "--steps", args.steps, 4, "the first 3 do not count")
each_known(parser, "--systems", ["DDP", "stage 3"], names)    # each word must be a part of a name
each_one_of(parser, "--ranks", args.ranks.split(","), "12")   # each word must be a name
"""


def least(parser, option, value, fewest, reason):
    if value < fewest:
        parser.error(f"{option} {value}: {reason}: use {fewest} or more")


def each_known(parser, option, words, names):
    for word in words:
        if not any(word in name for name in names):
            parser.error(f"{option}: no name has {word!r}: use a part of {', '.join(names)}")


def each_one_of(parser, option, words, names):
    for word in words:
        if word not in names:
            parser.error(f"{option}: {word!r} is not known: use {', '.join(names)}")
