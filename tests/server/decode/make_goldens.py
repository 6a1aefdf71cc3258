#!/usr/bin/env python3
"""Writes data/: pictures, clips and sounds like those of typical users, and the reference's result for the pictures.

Needs torch, Pillow, PyAV and numpy (written with torch 2.15, Pillow 13.0, PyAV 18.1). The reference's steps are those
of Lightricks' ltx_pipelines/utils/media_io (decode.py, resize.py), written out in `decode`, `pass_through_h264` and
`cover`. The reference's RGB for NAME.jpg is NAME.jpg.rgb.png; resized.f32 is cover(camera.png, 40 rows, 56 columns).
"""

import io
import math
import pathlib

import av
import numpy as np
import torch
from PIL import Image, ImageCms

DATA = pathlib.Path(__file__).parent / "data"
ROTATION = {3: 180, 6: 270, 8: 90}


def scene(height: int, width: int, phase: float = 0.0) -> np.ndarray:
    """Returns a picture like a camera's: soft light, a few edges, a little grain."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    u, v = x / width, y / height
    red = 120 + 90 * np.sin(3.1 * u + phase) * np.cos(2.3 * v)
    green = 110 + 80 * np.cos(2.7 * u - 1.9 * v + phase)
    blue = 100 + 85 * np.sin(1.7 * u + 3.3 * v - phase)
    image = np.stack([red, green, blue], -1)
    image[(u - 0.35) ** 2 + (v - 0.5) ** 2 < 0.04] = (200, 60, 50)
    image[(u > 0.62) & (u < 0.85) & (v > 0.25) & (v < 0.7)] = (40, 90, 170)
    grain = np.random.default_rng(7).normal(0, 2.0, (height, width, 1))
    return np.clip(np.round(image + grain), 0, 255).astype(np.uint8)


def decode(path: pathlib.Path) -> np.ndarray:
    with Image.open(path) as image:
        orientation = image.getexif().get(0x0112)
        if orientation in ROTATION:
            rotated = image.rotate(ROTATION[orientation], expand=True)
        else:
            rotated = image
        profile = image.info.get("icc_profile")
        image = rotated
        if image.mode == "RGBA":
            image = image.convert("RGB")
        elif image.mode == "LA":
            image = image.convert("L")
        if profile:
            to = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
            image = ImageCms.profileToProfile(image, ImageCms.ImageCmsProfile(io.BytesIO(profile)), to, outputMode="RGB")
        else:
            image = image.convert("RGB")
        return np.array(image, dtype=np.uint8)


def pass_through_h264(image: np.ndarray, crf: int) -> np.ndarray:
    file = io.BytesIO()
    height, width = image.shape[0] // 2 * 2, image.shape[1] // 2 * 2
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=1, options={"crf": str(crf), "preset": "veryfast"})
        stream.height, stream.width = height, width
        cut = np.ascontiguousarray(image[:height, :width])
        container.mux(stream.encode(av.VideoFrame.from_ndarray(cut, format="rgb24").reformat(format="yuv420p")))
        container.mux(stream.encode())
    file.seek(0)
    with av.open(file) as container:
        return next(container.decode(video=0)).to_ndarray(format="rgb24")


def cover(image: np.ndarray, height: int, width: int) -> np.ndarray:
    tensor = torch.tensor(image, dtype=torch.float32).permute(2, 0, 1)[None]
    scale = max(height / image.shape[0], width / image.shape[1])
    size = (math.ceil(image.shape[0] * scale), math.ceil(image.shape[1] * scale))
    tensor = torch.nn.functional.interpolate(tensor, size=size, mode="bilinear", align_corners=False)
    top, left = (size[0] - height) // 2, (size[1] - width) // 2
    return (tensor[0, :, top : top + height, left : left + width].permute(1, 2, 0) / 127.5 - 1.0).contiguous().numpy()


def wide_profile() -> bytes:
    """Returns an RGB profile other than sRGB: Adobe RGB's primaries as XYZ to D50, gamma 2.2."""
    import struct

    def xyz(x, y, z):
        return b"XYZ \0\0\0\0" + struct.pack(">3i", *(round(v * 65536) for v in (x, y, z)))

    curve = b"curv\0\0\0\0" + struct.pack(">IH", 1, round(2.19921875 * 256)) + b"\0\0"
    text = b"wide\0"
    description = b"desc\0\0\0\0" + struct.pack(">I", len(text)) + text + bytes(78)
    description += bytes(-len(description) % 4)
    tags = {b"desc": description, b"wtpt": xyz(0.9642, 1.0, 0.8249), b"rXYZ": xyz(0.60974, 0.31111, 0.01947),
            b"gXYZ": xyz(0.20528, 0.62567, 0.06087), b"bXYZ": xyz(0.14919, 0.06322, 0.74457), b"rTRC": curve, b"gTRC": curve,
            b"bTRC": curve, b"cprt": b"text\0\0\0\0none\0\0\0\0"}
    offset, table, body = 128 + 4 + 12 * len(tags), struct.pack(">I", len(tags)), b""
    for name, value in tags.items():
        table += name + struct.pack(">II", offset + len(body), len(value))
        body += value
    header = struct.pack(">I4sI4s4s4s", 128 + len(table) + len(body), b"\0\0\0\0", 0x02100000, b"mntr", b"RGB ", b"XYZ ")
    header += bytes(12) + b"acsp" + bytes(24) + struct.pack(">I", 0) + struct.pack(">3i", 63190, 65536, 54061)
    return header + bytes(128 - len(header)) + table + body


def write_pictures() -> None:
    camera = Image.fromarray(scene(90, 120))
    camera.save(DATA / "camera.png", optimize=True)
    grey = camera.convert("L")
    grey.save(DATA / "grey.png")
    camera.quantize(64).save(DATA / "palette.png", optimize=True)
    alpha = camera.copy()
    alpha.putalpha(Image.fromarray(np.tile(np.arange(120, dtype=np.uint8) * 2, (90, 1))))
    alpha.save(DATA / "alpha.png", optimize=True)
    Image.fromarray(scene(24, 33)).convert("1").save(DATA / "bits.png")
    camera.save(DATA / "profile.png", optimize=True, icc_profile=wide_profile())
    camera.save(DATA / "photo.jpg", quality=90)
    camera.save(DATA / "photo_444.jpg", quality=92, subsampling=0)
    camera.save(DATA / "photo_progressive.jpg", quality=85, progressive=True)
    camera.save(DATA / "photo_profile.jpg", quality=92, icc_profile=wide_profile())
    grey.save(DATA / "grey.jpg", quality=90)
    for orientation in (1, 3, 6, 8):
        exif = Image.Exif()
        exif[0x0112] = orientation
        camera.save(DATA / f"orientation_{orientation}.jpg", quality=90, exif=exif)
    camera.save(DATA / "photo.webp", quality=90)
    camera.save(DATA / "lossless.webp", lossless=True)
    for path in sorted(DATA.iterdir()):
        if path.suffix in (".png", ".jpg", ".webp") and not path.name.endswith(".rgb.png"):
            Image.fromarray(decode(path)).save(DATA / (path.name + ".rgb.png"), optimize=True)
    for crf in (18, 33):
        Image.fromarray(pass_through_h264(np.array(camera), crf)).save(DATA / f"camera_crf{crf}.rgb.png", optimize=True)
    cover(np.array(camera), 40, 56).tofile(DATA / "resized.f32")


def write_clip(name: str, codec: str, options: dict[str, str]) -> None:
    with av.open(str(DATA / name), "w") as container:
        stream = container.add_stream(codec, rate=24, options=options)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for i in range(9):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(scene(64, 96, 0.3 * i), format="rgb24")))
        container.mux(stream.encode())


def write_sound(name: str, codec: str, rate: int = 16000) -> None:
    """Writes half a second: 440 Hz on the left, 660 Hz on the right, at half the range."""
    t = np.arange(rate // 2) / rate
    wave = np.stack([np.sin(2 * np.pi * 440 * t), np.sin(2 * np.pi * 660 * t)]) * 0.5
    with av.open(str(DATA / name), "w") as container:
        stream = container.add_stream(codec, rate=rate, layout="stereo")
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(wave.astype(np.float32)), format="fltp", layout="stereo")
        frame.sample_rate = rate
        frame = av.AudioResampler(stream.format, "stereo", rate).resample(frame)[0]
        frame.pts = None
        fifo = av.AudioFifo()
        fifo.write(frame)
        size = stream.codec_context.frame_size or rate // 2
        while part := fifo.read(size, partial=True):
            container.mux(stream.encode(part))
        container.mux(stream.encode())


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    write_pictures()
    write_clip("clip.mp4", "libx264", {"crf": "20"})
    write_clip("clip.webm", "libvpx-vp9", {"crf": "25", "b:v": "0"})
    for name, codec in (("sound.wav", "pcm_s16le"), ("sound.flac", "flac"), ("sound.mp3", "libmp3lame"), ("sound.aac", "aac"),
                        ("sound.m4a", "aac")):
        write_sound(name, codec)
