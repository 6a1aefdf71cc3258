// Video decoders for tests: configurations of the released models and of the goldens, and decoders loaded from goldens.
#ifndef KINORA_TESTS_TESTING_VIDEO_DECODERS_H_
#define KINORA_TESTS_TESTING_VIDEO_DECODERS_H_

#include <memory>
#include <string>

#include "engine/model/video_decoder.h"
#include "tests/testing/backends.h"

namespace kinora {

VideoDecoderConfig ReleasedVideoDecoder(const std::string& version);  // "2.0", "2.3"
VideoDecoderConfig ConfigOf(const Golden& golden);
// Bytes of exec.arena that Forward uses.
int64_t ArenaBytesOf(const VideoDecoder& decoder, DType dtype, const Shape& latent);

// The golden "video_decoder_<generation>", its decoder, and memory to run it in.
class LoadedVideoDecoder {
 public:
  explicit LoadedVideoDecoder(const std::string& generation, DType dtype = DType::kF32,
                              const TestedBackend& on = Cpu());

  const VideoDecoder& decoder() const { return *decoder_; }
  std::shared_ptr<const VideoDecoder> shared_decoder() const { return decoder_; }
  Golden& golden() { return golden_; }
  Backend& backend() { return *backend_; }
  // Returns an Exec over `bytes` of device memory that holds NaN. A null `host` uses the same memory as the host arena,
  // which requires unified memory. The Exec is valid until the next call.
  Exec MakeExec(int64_t bytes, Taps* taps = nullptr, Arena* host = nullptr);
  Arena& arena() { return *arena_; }

 private:
  const DType dtype_;
  Golden golden_;
  std::unique_ptr<Mesh> mesh_ = Mesh::Single();
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const VideoDecoder> decoder_;
  std::unique_ptr<Arena> arena_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_VIDEO_DECODERS_H_
