"""Random pictures of all kinds, and Pillow's results for them, for pillow_pictures_test.cpp.

    pillow_pictures.py FOLDER COUNT SEED

Writes N.png or N.jpg, N.grey and N.rgb (planes of bytes), N.fit and N.passes. N.fit is grey, resized and cropped as
torchvision's Resize and CenterCrop do. N.passes is the same, with columns first in each version of Pillow. The list
pictures.txt has name, height, width, height and width of N.fit, and the largest difference that the test allows. The
script writes PNGs itself, because Pillow writes no 16-bit colours, gAMA or Adam7.
"""

import io
import pathlib
import random
import struct
import sys
import warnings
import zlib

import numpy as np
from PIL import Image

GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
VALUES = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}
ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed(row, bits):
    """A row of values as bytes."""
    if bits == 16:
        return row.astype(">u2").tobytes()
    if bits == 8:
        return row.astype(np.uint8).tobytes()
    per_byte = 8 // bits
    row = np.concatenate([row, np.zeros(-len(row) % per_byte, row.dtype)]).reshape(-1, per_byte)
    return bytes(int(sum(int(v) << (8 - bits * (i + 1)) for i, v in enumerate(group))) for group in row)


def png(rng, values, colour, bits, interlaced, palette):
    """`values`: [height, width, values of a pixel]."""
    height, width = values.shape[:2]
    file = b"\x89PNG\r\n\x1a\n"
    file += chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, int(interlaced)))
    extra = rng.choice(["", "gAMA", "sRGB", "sBIT"])
    if extra == "gAMA":
        file += chunk(b"gAMA", struct.pack(">I", rng.choice([45455, 100000, 55555, 220000])))
    elif extra == "sRGB":
        file += chunk(b"sRGB", b"\0") + chunk(b"gAMA", struct.pack(">I", 45455))
    elif extra == "sBIT" and bits >= 8:
        file += chunk(b"sBIT", bytes([5]) * (3 if colour == PALETTE else VALUES[colour]))
    if colour == PALETTE:
        file += chunk(b"PLTE", palette.tobytes())
    if rng.random() < 0.4:
        if colour == PALETTE:
            file += chunk(b"tRNS", bytes(rng.randrange(256) for _ in range(rng.randint(1, len(palette)))))
        elif colour in (GREY, RGB):
            file += chunk(b"tRNS", values[0, 0].astype(">u2").tobytes())
    parts = ADAM7 if interlaced else [(0, 0, 1, 1)]
    rows = b""
    for top, left, down, right in parts:
        part = values[top::down, left::right]
        if part.size:
            rows += b"".join(b"\0" + packed(row.reshape(-1), bits) for row in part)
    return file + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def some_values(rng, height, width, values, most):
    """Random values, smooth or noisy."""
    random_values = np.random.default_rng(rng.randrange(2**32))
    if rng.random() < 0.5:
        return random_values.integers(0, most + 1, (height, width, values))
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    waves = [np.sin(random_values.uniform(0, 9) * x + random_values.uniform(0, 9) * y) for _ in range(values)]
    return ((np.stack(waves, -1) + 1) / 2 * most).astype(np.int64)


def random_png(rng, height, width):
    colour = rng.choice(list(VALUES))
    bits = rng.choice({GREY: [1, 2, 4, 8, 16], PALETTE: [1, 2, 4, 8]}.get(colour, [8, 16]))
    palette = np.random.default_rng(rng.randrange(2**32)).integers(0, 256, (2**bits if bits < 16 else 1, 3), np.uint8)
    values = some_values(rng, height, width, VALUES[colour], 2**bits - 1)
    file = png(rng, values, colour, bits, rng.random() < 0.3, palette)
    return file, values if bits == 16 else None, colour


def marker(kind, data):
    return b"\xff" + bytes([kind]) + struct.pack(">H", len(data) + 2) + data


def random_jpeg(rng, height, width):
    kind = rng.choice(["L", "RGB", "RGB of Adobe", "CMYK", "YCCK", "CMYK without Adobe"])
    mode = "L" if kind == "L" else "RGB" if kind.startswith("RGB") else "CMYK"
    values = some_values(rng, height, width, len(mode) if mode != "L" else 1, 255).astype(np.uint8)
    image = Image.fromarray(values[..., 0] if mode == "L" else values, mode=mode)
    out = io.BytesIO()
    options = {"quality": rng.choice([30, 75, 95]), "progressive": rng.random() < 0.3}
    if mode == "RGB":
        options["subsampling"] = rng.choice([0, 1, 2])
        exif = Image.Exif()
        exif[0x0112] = rng.randint(1, 8)  # orientation
        options["exif"] = exif
    image.save(out, "JPEG", **options)
    file = out.getvalue()
    at = file.find(b"\xff\xee")
    if kind == "YCCK":  # the same coefficients, which now encode other colours
        file = file[: at + 15] + b"\2" + file[at + 16 :]
    elif kind == "CMYK without Adobe":
        file = file[:at] + file[at + 16 :]
    elif kind == "RGB of Adobe":
        assert at < 0
        jfif = 4 + struct.unpack(">H", file[4:6])[0] if file[2:4] == b"\xff\xe0" else 2
        file = file[:2] + marker(0xEE, b"Adobe" + struct.pack(">HHHB", 100, 0, 0, 0)) + file[jfif:]
    return file


def fitted(image, height, width, in_passes=False):
    """torchvision.transforms.functional.resize and center_crop, for a size that the picture must cover completely.

    Pillow 13 takes the rows first if that is faster. Values between its passes are then rounded differently."""
    w, h = image.size
    if height * w >= width * h:
        new_w, new_h = int(height * w / h), height
    else:
        new_w, new_h = width, int(width * h / w)
    if in_passes:
        image = image.resize((new_w, h), Image.BILINEAR)
    image = image.resize((new_w, new_h), Image.BILINEAR)
    left, top = int(round((new_w - width) / 2.0)), int(round((new_h - height) / 2.0))
    return image.crop((left, top, left + width, top + height))


def main(folder, count, seed):
    rng = random.Random(seed)
    lines = []
    for i in range(count):
        height, width = rng.randint(1, 70), rng.randint(1, 70)
        deep = None
        if i % 2 == 0:
            name = f"{i}.png"
            file, deep, colour = random_png(rng, height, width)
        else:
            name = f"{i}.jpg"
            file = random_jpeg(rng, height, width)
        (folder / name).write_bytes(file)
        image = Image.open(io.BytesIO(file))
        # Pillow keeps 16 bits of grey, and only the upper 8 bits of colours.
        if deep is not None and colour == GREY:
            image = Image.fromarray(np.round(deep[..., 0] / 257).astype(np.uint8))
        grey, rgb = image.convert("L"), image.convert("RGB")
        (folder / f"{i}.grey").write_bytes(np.asarray(grey).tobytes())
        (folder / f"{i}.rgb").write_bytes(np.asarray(rgb).transpose(2, 0, 1).tobytes())
        to_height, to_width = rng.randint(1, 50), rng.randint(1, 50)
        for ending, in_passes in (("fit", False), ("passes", True)):
            (folder / f"{i}.{ending}").write_bytes(np.asarray(fitted(grey, to_height, to_width, in_passes)).tobytes())
        most = 1 if deep is not None and colour != GREY else 0
        lines.append(f"{i} {name} {height} {width} {to_height} {to_width} {most}\n")
    (folder / "pictures.txt").write_text("".join(lines))


warnings.simplefilter("ignore")
main(pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
