// Video decoders for tests: the configurations of the released models and of the goldens, and a golden's decoder loaded
// from its file.
#ifndef KINORA_TESTS_TESTING_VIDEO_DECODERS_H_
#define KINORA_TESTS_TESTING_VIDEO_DECODERS_H_

#include <memory>
#include <string>

#include "engine/model/video_decoder.h"
#include "tests/testing/backends.h"

namespace kinora {

VideoDecoderConfig ReleasedVideoDecoder(const std::string& version);  // "2.0", "2.3"
VideoDecoderConfig ConfigOf(const Golden& golden);

// The golden "video_decoder_<generation>", its decoder, and memory to run in.
class LoadedVideoDecoder {
 public:
  explicit LoadedVideoDecoder(const std::string& generation, DType dtype = DType::kF32,
                              const TestedBackend& on = Cpu());

  const VideoDecoder& decoder() const { return *decoder_; }
  Golden& golden() { return golden_; }
  Backend& backend() { return *backend_; }
  // An Exec over `bytes` of device memory that holds NaN, and a host arena or, where that is possible, the same memory
  // for both. Valid until the next call.
  Exec MakeExec(int64_t bytes, Taps* taps = nullptr, Arena* host = nullptr);
  Arena& arena() { return *arena_; }

 private:
  const DType dtype_;
  Golden golden_;
  std::unique_ptr<Mesh> mesh_ = Mesh::Single();
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<VideoDecoder> decoder_;
  std::unique_ptr<Arena> arena_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_VIDEO_DECODERS_H_
