"""Images: patches, sizes, files and what cannot be read."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from lampnet.config import InputConfig
from lampnet.encoders.image import ImageEncoder
from lampnet.encoders.image_features import feature_count, gradient_and_colour
from lampnet.errors import DataError
from lampnet.explain.input_view import picture_data
from lampnet.runtime.memory_limit import limited_to

random = np.random.default_rng(0)

#: opens an image in a process that may take half a gigabyte more
WITH_LITTLE_MEMORY = """
import resource, sys
from lampnet.encoders.image_files import decoded, opened_image, pillow
from lampnet.errors import DataError

pillow().preinit()
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 500_000_000,) * 2)
try:
    with opened_image(sys.argv[1]) as image:
        decoded(image, sys.argv[1], "RGB")
except DataError as fault:
    print(fault)
"""


def pixels(*shape):
    return random.integers(0, 256, shape, dtype=np.uint8)


def test_patches_lie_where_their_names_put_them():
    scenes = pixels(3, 24, 24)
    encoder = ImageEncoder(InputConfig()).fit(scenes)
    nodes = encoder.encode(scenes).nodes
    names = encoder.encode(scenes).node_names(1)
    assert nodes.lengths().tolist() == [9, 9, 9]
    for node, name in enumerate(names):
        r, c = (int(x) for x in name.removeprefix("patch ").split(","))
        assert nodes.positions[9 + node].tolist() == [r, c]
        ((left, top, right, bottom),) = encoder.encode(scenes).node_places(1)[node]
        np.testing.assert_array_equal(nodes.vectors[9 + node].reshape(8, 8), scenes[1, top:bottom, left:right])


@pytest.mark.parametrize(
    ("shape", "patch", "expected", "nodes"),
    [
        ((24, 24), 16, 8, 9),
        ((128, 128, 3), 16, 16, 64),
        ((31, 31), 16, 10, 16),
        ((2, 2), 16, 1, 4),
        ((64, 96), 8, 8, 96),
    ],
)
def test_the_patch_suits_the_image(shape, patch, expected, nodes):
    images = [pixels(*shape) for _ in range(2)]
    encoder = ImageEncoder(InputConfig(patch=patch)).fit(images)
    assert encoder.patch == expected
    assert encoder.encode(images).nodes.lengths().tolist() == [nodes, nodes]


def test_other_sizes_and_colours_are_brought_to_the_trained_ones():
    encoder = ImageEncoder(InputConfig(image_side=32)).fit([pixels(40, 50, 3), pixels(20, 20, 3)])
    assert (encoder.height, encoder.width, encoder.channels) == (32, 32, 3)
    even = np.full((70, 10), 77, dtype=np.uint8)  # grey: all three colours alike
    assert (encoder.encode([even]).nodes.vectors == 77).all()
    grey = ImageEncoder(InputConfig()).fit([pixels(24, 24)])
    red = np.zeros((24, 24, 3), dtype=np.uint8)
    red[..., 0] = 200
    assert np.unique(grey.encode([red]).nodes.vectors).tolist() == [60]
    assert encoder.encode([pixels(64, 128)]).node_places(0)[-1] == ((96, 48, 128, 64),)


def test_files_equal_arrays(tmp_path):
    images = [pixels(24, 24, 3) for _ in range(3)]
    paths = []
    for i, image in enumerate(images):
        paths.append(tmp_path / f"{i}.png")
        Image.fromarray(image).save(paths[-1])
    by_array, by_file = (
        ImageEncoder(InputConfig()).fit(images),
        ImageEncoder(InputConfig()).fit([str(p) for p in paths]),
    )
    np.testing.assert_array_equal(by_array.encode(images).nodes.vectors, by_file.encode(paths).nodes.vectors)
    np.testing.assert_array_equal(by_array.encode(images).features, by_file.encode(paths).features)


def test_unreadable_images_are_named(tmp_path):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"\xff\xd8\xff\xe0 not an image")
    good = [pixels(24, 24)]
    encoder = ImageEncoder(InputConfig()).fit(good)
    for rows in ([broken], [tmp_path / "absent.png"]):
        with pytest.raises(DataError, match=r"(broken|absent).*cannot be read as an image"):
            encoder.encode(rows)
        with pytest.raises(DataError, match=r"row 1: .*cannot be read as an image"):
            ImageEncoder(InputConfig()).fit([good[0], rows[0]])
    whole = tmp_path / "whole.jpg"
    Image.fromarray(pixels(64, 64, 3)).save(whole)
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(whole.read_bytes()[:900])
    with pytest.raises(DataError, match=r"cut\.jpg cannot be read"):
        ImageEncoder(InputConfig()).fit([cut])
    for bad in (np.zeros((24, 24)), np.zeros((24, 24, 4), dtype=np.uint8), np.zeros((0, 4), dtype=np.uint8)):
        with pytest.raises(DataError, match="row 0: an array of shape"):
            encoder.encode([bad])


def test_settings_that_cannot_work_are_refused():
    with pytest.raises(DataError, match="the images differ in size"):
        ImageEncoder(InputConfig(image_side=0)).fit([pixels(8, 8), pixels(9, 9)])
    with pytest.raises(DataError, match=r"make 64 patches of 16, more than input.max_nodes=10"):
        ImageEncoder(InputConfig(max_nodes=10)).fit([pixels(128, 128)])


def test_a_forged_size_is_refused_before_an_image_is_decoded():
    encoder = ImageEncoder(InputConfig()).fit([pixels(32, 32)])
    state, arrays = encoder.state(), encoder.arrays()
    for height, width, patch, sentence in (
        (8192, 8192, 2731, "larger than the 4,194,304 pixels"),
        (2048, 2048, 8, r"make 65536 patches of 8, more than 4,096"),
        (640, 640, 16, r"more than input.max_nodes=512"),
    ):
        most = 512 if height == 640 else 10**9
        pixels_in_patch, features = patch * patch, feature_count(height, width, 1, patch)
        forged = {
            **arrays,
            "mean": np.zeros(pixels_in_patch, np.float32),
            "spread": np.ones(pixels_in_patch, np.float32),
            "feature_mean": np.zeros(features, np.float32),
            "feature_spread": np.ones(features, np.float32),
        }
        size = {"height": height, "width": width, "patch": patch, "channels": 1}
        with pytest.raises(DataError, match=sentence):
            ImageEncoder.restore(InputConfig(max_nodes=most), {**state, **size}, forged)
    with pytest.raises(DataError, match="larger than the 4,194,304 pixels"):
        ImageEncoder(InputConfig(image_side=0)).fit([np.zeros((2049, 2048), np.uint8)])


def test_large_images_are_decoded_a_few_at_a_time():
    small = ImageEncoder(InputConfig()).fit([pixels(32, 32)])
    large = ImageEncoder(InputConfig(image_side=0, patch=512)).fit([np.zeros((2048, 2048, 3), np.uint8)])
    assert [len(images) for images in small._chunks([pixels(32, 32)] * 70)] == [32, 32, 6]
    assert [len(images) for images in large._chunks([np.zeros((8, 8, 3), np.uint8)] * 3)] == [1, 1, 1]


def test_training_pixels_become_standard_numbers():
    images = [np.clip(random.normal([50, 100, 200], [5, 30, 10], (32, 32, 3)), 0, 255).astype(np.uint8)] * 2
    encoder = ImageEncoder(InputConfig()).fit(images)
    module = encoder.embedding(8)
    nodes = encoder.encode(images).nodes
    standard = (torch.from_numpy(nodes.vectors).float() - module.mean) / module.spread
    by_colour = standard.reshape(-1, 3)
    torch.testing.assert_close(by_colour.mean(0), torch.zeros(3), atol=1e-3, rtol=0)
    torch.testing.assert_close(by_colour.std(0), torch.ones(3), atol=1e-2, rtol=0)
    assert set(module.state_dict()) == {"projection.weight", "projection.bias", "position_weight"}


def test_gradient_features_know_directions_but_not_signs():
    stripes = np.zeros((1, 24, 24, 1), dtype=np.uint8)
    stripes[:, :, ::4] = stripes[:, :, 1::4] = 255
    edges = 36 * 8
    upright, lying = gradient_and_colour(stripes, 8), gradient_and_colour(stripes.swapaxes(1, 2), 8)
    assert upright.shape[1] == feature_count(24, 24, 1, 8)
    assert not np.allclose(upright[:, :edges], lying[:, :edges])
    np.testing.assert_allclose(gradient_and_colour(255 - stripes, 8)[:, :edges], upright[:, :edges], atol=1e-6)
    # A horizontal gradient is direction 0 of 8, a vertical one direction 4.
    assert upright[0, :edges].reshape(36, 8).mean(0).argmax() == 0
    assert lying[0, :edges].reshape(36, 8).mean(0).argmax() == 4


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF"])
def test_the_promised_formats_are_read_under_any_name(form, tmp_path):
    path = tmp_path / "picture.png"
    Image.fromarray(pixels(24, 24, 3)).save(path, format=form)
    encoder = ImageEncoder(InputConfig()).fit([path])
    assert encoder.encode([path]).nodes.lengths().tolist() == [9]


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 24 24\n%%EndComments\nshowpage\n%%EOF\n"


@pytest.mark.parametrize("form", ["EPS", "PPM", "TGA", "ICNS", "SGI", "PCX"])
def test_other_formats_are_refused_whatever_the_name_says(form, tmp_path, monkeypatch):
    """A PostScript file called a.png would start Ghostscript; here a stand-in for it leaves a mark."""
    marker = tmp_path / "started"
    program = tmp_path / "gs"
    program.write_text(f"#!/bin/sh\ntouch {marker}\necho 10.0\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)  # what an earlier search found
    path = tmp_path / "a.png"
    path.write_bytes(EPS)
    if form != "EPS":
        Image.fromarray(pixels(24, 24, 3)).save(path, format=form)
    good = pixels(24, 24, 3)
    encoder = ImageEncoder(InputConfig()).fit([good])
    for use in (
        lambda: ImageEncoder(InputConfig()).fit([path]),
        lambda: encoder.encode([path]),
        lambda: picture_data(path),
    ):
        with pytest.raises(DataError, match=r"a\.png cannot be read as an image .* give a PNG or JPEG file"):
            use()
    assert not marker.exists()


def test_a_part_that_states_gigabytes_is_damage(tmp_path):
    path = tmp_path / "a.png"
    Image.new("RGB", (8, 8)).save(path)
    content = path.read_bytes()
    at = content.index(b"IDAT") - 4
    path.write_bytes(content[:at] + (2**31 - 1).to_bytes(4, "big") + content[at + 4 :])
    done = subprocess.run([sys.executable, "-c", WITH_LITTLE_MEMORY, path], capture_output=True, text=True, check=False)
    said = f"{path} cannot be read as an image (it asks for more memory than there is); give a PNG or JPEG file"
    assert done.stdout.strip() == said, done.stderr


def test_an_image_larger_than_the_memory_is_refused(tmp_path):
    path = tmp_path / "a.png"
    Image.new("L", (3000, 3000)).save(path)
    encoder = ImageEncoder(InputConfig()).fit([pixels(24, 24)])
    with limited_to(10_000_000), pytest.raises(DataError, match="72 MB of memory or more, above the limit of 10 MB"):
        encoder.encode([path])
