"""Draw the comments of GoEmotions that ship with lampnet as `goemotions-sample`.

    python benchmarks/goemotions_sample.py [--data-root DIR] [--check]

From the publisher's files in DIR/goemotions, the same sample every time; --check compares it with the one in the
package. Half of the comments have several emotions (one in six in the whole set), and rare emotions come first, so that
a few thousand rows have something to learn about sets of labels. Comments with swear words, hateful or sexual language,
violence, religion, politics, links or names of users are left out. Comment ids, which lead to their authors, are
replaced by the line in the publisher's file.
"""

from __future__ import annotations

import argparse
import gzip
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np

import lampnet.readers.named
from lampnet.readers.named.registry import folder_of

OUT = Path(lampnet.readers.named.__file__).parent / "goemotions_sample"
SIZES = {"train": 3200, "test": 800}
#: comments of each label that are taken before the rest is drawn, where there are so many
FEWEST = {"train": 40, "test": 8}
SHARE_OF_SEVERAL = 0.5
WORDS = (5, 40)
SEED = 0

#: A comment with one of these anywhere, with a word that begins so, or with one of these words is left out.
_ANYWHERE = "fuck fck shit bitch cunt nigg goddam asshole dumbass badass jackass http www. @ u/ ** [religion] crips"
_BEGINNINGS = """
bastard damn crap piss dick cock pussy penis vagina boob whore slut porn sex nude naked horny wank jerk orgasm drug
cocaine heroin gay lesbian queer fag retard autis idiot moron stupid dumb scum trash loser ugly racis nazi hitler jew
muslim islam christ jesus immigra trump politic republican democrat liberal conservative rape rapist abus pedo incel
suicid kill murder shoot gun terroris wtf stfu lmfao lmao omfg suck molest virgin slave feminis cannabis idgaf screw
balls psycho
"""
_WORDS = "f fu ass asses hell tit tits cum weed trans fat god die dies died dying dead bs white black"


def read(path: Path) -> list[tuple[str, list[str], str]]:
    """Text, label numbers and line of the comments that are fit to ship."""
    found, seen = [], set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text, labels, _ = line.split("\t")
        text = " ".join(text.split())
        if WORDS[0] <= len(text.split()) <= WORDS[1] and not _unfit(text) and text not in seen:
            seen.add(text)
            found.append((text, sorted(set(labels.split(",")), key=int), f"{path.stem}-{number}"))
    return found


def _unfit(text: str) -> bool:
    text = text.lower()
    beginnings, words = tuple(_BEGINNINGS.split()), set(_WORDS.split())
    found = re.findall(r"[a-z]+", text)
    return any(part in text for part in _ANYWHERE.split()) or any(
        word.startswith(beginnings) or word in words for word in found
    )


def draw(part: str, comments: list[tuple[str, list[str], str]]) -> list[tuple[str, list[str], str]]:
    """So many comments of a part, in the publisher's order."""
    order = np.random.default_rng([SEED, list(SIZES).index(part)]).permutation(len(comments)).tolist()
    counts = Counter(label for _, labels, _ in comments for label in labels)
    chosen: set[int] = set()
    for label in sorted(counts, key=lambda label: (counts[label], label)):
        with_label = [row for row in order if label in comments[row][1]]
        missing = FEWEST[part] - sum(row in chosen for row in with_label)
        chosen |= set([row for row in with_label if row not in chosen][: max(0, missing)])
    several = [row for row in order if len(comments[row][1]) > 1]
    missing = int(SIZES[part] * SHARE_OF_SEVERAL) - sum(row in chosen for row in several)
    chosen |= set([row for row in several if row not in chosen][: max(0, missing)])
    alone = [row for row in order if len(comments[row][1]) == 1 and row not in chosen]
    chosen |= set(alone[: SIZES[part] - len(chosen)])
    return [comments[row] for row in sorted(chosen)]


def sample(folder: Path) -> dict[str, bytes]:
    """The files of the sample, by name, in the publisher's format."""
    files = {"emotions.txt": (folder / "emotions.txt").read_bytes()}
    for part in SIZES:
        rows = draw(part, read(folder / f"{part}.tsv"))
        lines = "".join(f"{text}\t{','.join(labels)}\t{line}\n" for text, labels, line in rows)
        files[f"{part}.tsv.gz"] = gzip.compress(lines.encode(), 9, mtime=0)
    return files


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", help="the folder that holds goemotions/; by default LAMPNET_DATA or ./data")
    parser.add_argument("--check", action="store_true", help="only compare with the files in the package")
    given = parser.parse_args()
    files = sample(folder_of("goemotions", given.data_root))
    if given.check:
        old = [name for name, content in files.items() if not _same(OUT / name, content)]
        if old:
            print(f"{', '.join(old)} in {OUT.name} differ; run python benchmarks/goemotions_sample.py", file=sys.stderr)
        return int(bool(old))
    for name, content in files.items():
        (OUT / name).write_bytes(content)
        print(f"{OUT.name}/{name}: {len(content):,} bytes")
    return 0


def _same(path: Path, content: bytes) -> bool:
    """Compared unpacked: releases of zlib may pack differently."""
    unpacked = gzip.decompress if path.suffix == ".gz" else bytes
    return path.is_file() and unpacked(path.read_bytes()) == unpacked(content)


if __name__ == "__main__":
    sys.exit(main())
