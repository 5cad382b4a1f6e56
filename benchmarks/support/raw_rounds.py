"""Figures of a benchmark's runs. Each is printed on stderr and written to a file, which is complete after each of them.

rounds = RawRounds(args.output)                     # a path, or None: no file
rounds.add(kind="step", system="DDP", round=0, seconds=0.12)
seconds = [record["seconds"] for record in rounds.of(kind="step", system="DDP")]
rounds = RawRounds.read("rounds.json")              # the records of an earlier run
"""

import json
import statistics
import sys
from pathlib import Path


class RawRounds:
    def __init__(self, output=None, records=()):
        self.output, self.records = output, list(records)

    @staticmethod
    def read(path):
        return RawRounds(records=json.loads(Path(path).read_text()))

    def add(self, **figures):
        self.records.append(figures)
        print(json.dumps(figures), file=sys.stderr, flush=True)
        if self.output:
            whole = Path(f"{self.output}.part")
            whole.write_text("[" + ",\n ".join(map(json.dumps, self.records)) + "]\n")
            whole.replace(self.output)

    def of(self, **asked):
        """The records that have these values."""
        return [record for record in self.records if all(record.get(key) == value for key, value in asked.items())]

    def values(self, key, **asked):
        return [record[key] for record in self.of(**asked)]

    def median(self, key, **asked):
        return statistics.median(self.values(key, **asked))


def spread(values):
    """Largest less smallest value, as a share of the median."""
    return (max(values) - min(values)) / statistics.median(values)


def widest(spreads):
    """ "12 % of its median (DDP)", of {name: spread}."""
    name = max(spreads, key=spreads.get)
    return f"{100 * spreads[name]:.0f} % of its median ({name})"
