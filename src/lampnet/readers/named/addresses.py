"""Where the publishers of the named data sets offer their files."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Address:
    """One file of a publisher.

    url        where it is
    file       its name in the data folder
    unpack     archives: patterns of the members to keep, by the folder they go to ("" is the data folder)
    sha256     its checksum, where one is known
    max_bytes  more than this is not the file
    """

    url: str
    file: str
    unpack: tuple[tuple[str, str], ...] = ()
    sha256: str | None = None
    max_bytes: int = 1 << 28


#: For the few files of more than 256 MB.
_LARGE = 2 << 30


_MULAN = "https://downloads.sourceforge.net/project/mulan/datasets/"
_LYRL = "https://www.jmlr.org/papers/volume5/lewis04a/"
_GOEMOTIONS = "https://raw.githubusercontent.com/google-research/google-research/master/goemotions/data/"
_STRING = "https://stringdb-downloads.org/download/"
_ARFF = (("*.arff", ""), ("*.xml", ""))


def _mulan(archive: str, max_bytes: int = Address.max_bytes) -> tuple[Address, ...]:
    return (Address(_MULAN + archive, archive, _ARFF, max_bytes=max_bytes),)


def _yeast_string(what: str, sha256: str) -> Address:
    file = f"4932.{what}.v12.0.txt.gz"
    return Address(f"{_STRING}{what}.v12.0/{file}", file, sha256=sha256)


ADDRESSES: dict[str, tuple[Address, ...]] = {
    **{
        name: _mulan(f"{name}.rar")
        for name in ("bibtex", "delicious", "bookmarks", "scene", "emotions", "corel5k", "mediamill")
    },
    "nuswide": _mulan("nuswide-cVLADplus.rar", _LARGE),
    "imdb": (Address("https://downloads.sourceforge.net/project/meka/Datasets/IMDB-F.arff", "IMDB-F.arff"),),
    "reuters21578": (
        Address(
            "https://kdd.ics.uci.edu/databases/reuters21578/reuters21578.tar.gz",
            "reuters21578.tar.gz",
            (("reut2-*.sgm", ""), ("*.txt", ""), ("*.dtd", "")),
        ),
    ),
    "rcv1": (
        *(
            Address(f"{_LYRL}a12-token-files/lyrl2004_tokens_{part}.dat.gz", f"lyrl2004_tokens_{part}.dat.gz")
            for part in ("train", "test_pt0", "test_pt1", "test_pt2", "test_pt3")
        ),
        Address(_LYRL + "a08-topic-qrels/rcv1-v2.topics.qrels.gz", "rcv1-v2.topics.qrels.gz"),
        Address(_LYRL + "a02-orig-topics-hierarchy/rcv1.topics.hier.orig", "rcv1.topics.hier.orig"),
    ),
    "sider": (Address("https://deepchemdata.s3-us-west-1.amazonaws.com/datasets/sider.csv.gz", "sider.csv.gz"),),
    "tox21": (Address("https://deepchemdata.s3-us-west-1.amazonaws.com/datasets/tox21.csv.gz", "tox21.csv.gz"),),
    "goemotions": tuple(
        Address(_GOEMOTIONS + file, file) for file in ("train.tsv", "dev.tsv", "test.tsv", "emotions.txt")
    ),
    "yeast_chipexo": (
        Address(
            "https://github.com/CEGRcode/2021-Rossi_Nature/archive/refs/heads/master.zip",
            "2021-Rossi_Nature.zip",
            (("04_ChExMix_Peaks/*_CX.bed", "peaks"), ("sample-key.tab", "")),
            max_bytes=_LARGE,
        ),
        Address("https://hgdownload.soe.ucsc.edu/goldenPath/sacCer3/bigZips/sacCer3.fa.gz", "sacCer3.fa.gz"),
        _yeast_string("protein.physical.links", "a9d9d5812b0c3c798fee839751b884587ea85174b733149b5ac87d7d87683958"),
        _yeast_string("protein.info", "ad69b4594f35cf6ffeb52afbfc3fe30d639bb76e0b883bc914dce8b2acb3e29c"),
    ),
}

#: Data sets that cannot be fetched, and what to do instead.
NOT_OFFERED = {
    "digits": "the digit scenes are embedded in lampnet and need no files",
    "goemotions-sample": "the sample is embedded in lampnet and needs no files",
    "tfbs": "the paper's binding sites are not public; put your own windows (train.fa and train.tsv, ...) there",
    "miml_images": (
        "the pictures are offered at http://www.lamda.nju.edu.cn/data_MIMLimage.ashx as nested archives with MATLAB "
        "labels; put the pictures into images/ and a table (Filenames, then one 0/1 column per label) into "
        "miml_labels_1.csv"
    ),
}
