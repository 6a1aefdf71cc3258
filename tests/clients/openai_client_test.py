#!/usr/bin/env python3
"""OpenAI's own Python client, unmodified, against kinora-gateway in front of a frontend with the tiny model: only its
base URL differs."""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import harness
from gateway_test import Gateway

FOLDERS = [harness.ROOT / "third_party" / "openai-client", Path("/usr/local/share/kinora/openai-client")]
FOLDER = next((folder for folder in FOLDERS if folder.exists()), FOLDERS[0])
PROMPT = "a red fox in fresh snow"
MORE = {"num_inference_steps": 2, "seed": 7}

openai: Any = None


def setUpModule() -> None:
    global openai
    sys.path.insert(0, str(FOLDER))
    import openai as package

    openai = package


class OpenAiClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        frontend = cls.enterClassContext(harness.Frontend(folder))
        gateway = cls.enterClassContext(Gateway(frontend.address))
        cls.client = cls.enterClassContext(openai.OpenAI(base_url=f"http://127.0.0.1:{gateway.port}/v1", api_key="none", max_retries=0))

    def test_a_clip_is_created_polled_downloaded_listed_and_deleted(self) -> None:
        videos = self.client.videos
        [model] = self.client.models.list().data
        video = videos.create_and_poll(prompt=PROMPT, model=model.id, seconds="1", size="64x64", extra_body=MORE, poll_interval_ms=50)
        self.assertEqual((video.status, video.progress, video.prompt, video.size, video.model), ("completed", 100, PROMPT, "64x64", model.id))
        self.assertEqual(videos.retrieve(video.id).completed_at, video.completed_at)
        clip = videos.download_content(video.id).read()
        self.assertEqual(clip[4:8], b"ftyp")
        page = videos.list(limit=1)
        self.assertEqual([listed.id for listed in page.data], [video.id])
        deleted = videos.delete(video.id)
        self.assertEqual((deleted.id, deleted.deleted, deleted.object), (video.id, True, "video.deleted"))
        with self.assertRaises(openai.NotFoundError):
            videos.retrieve(video.id)

    def test_a_list_goes_on_after_its_last_video(self) -> None:
        videos = self.client.videos
        made = [videos.create(prompt=PROMPT, seconds="1", size="64x64", extra_body=MORE).id for _ in range(3)]
        listed = [video.id for video in videos.list(limit=2)]  # fetches further pages
        self.assertEqual(listed[:3], made[::-1])

    def test_a_picture_is_sent(self) -> None:
        first = self.client.videos.create_and_poll(prompt=PROMPT, seconds="1", size="64x64", extra_body=MORE, poll_interval_ms=50)
        with tempfile.NamedTemporaryFile(suffix=".mp4") as file:
            file.write(self.client.videos.download_content(first.id).read())
            file.flush()
            video = self.client.videos.create_and_poll(prompt=PROMPT, seconds="1", size="64x64", input_reference=Path(file.name),
                                                       extra_body=MORE, poll_interval_ms=50)
        self.assertEqual(video.status, "completed")

    def test_errors_are_its_own(self) -> None:
        with self.assertRaises(openai.UnprocessableEntityError) as wrong:
            self.client.videos.create(prompt=PROMPT, size="65x64", seconds="1")
        self.assertEqual((wrong.exception.param, wrong.exception.type), ("width", "invalid_request_error"))
        with self.assertRaises(openai.NotFoundError):
            self.client.videos.download_content("unknown")


if __name__ == "__main__":
    harness.main(folders=[str(FOLDER)])
