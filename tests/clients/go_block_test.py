#!/usr/bin/env python3
"""Builds the Go code of docs/clients.md with Debian's packages, as a reader would."""

import harness


class GoBlock(harness.PageTest):
    def test_the_client_of_the_page_is_built_and_makes_a_clip(self) -> None:
        (client,), (command,) = harness.blocks("go"), harness.blocks("bash go")
        (self.folder / "generate.go").write_text(self.here(client))
        cache = harness.BUILD / "go-cache"  # compiling gRPC takes most of the time
        harness.run(["bash", "-ec", command], self.folder, GOCACHE=str(cache.resolve()), GOFLAGS="")
        done = harness.run(["./generate"], self.folder)
        self.assertEqual(done, "")
        self.check_clip("clip.mp4")


if __name__ == "__main__":
    harness.main(programs=["go", "protoc", "protoc-gen-go", "protoc-gen-go-grpc", "ffprobe"],
                 folders=["/usr/share/gocode/src/google.golang.org/grpc"])
