// Clips for the media tests, and decoding with libav alone, without engine/media.
#ifndef KINORA_TESTS_MEDIA_CLIP_FIXTURES_H_
#define KINORA_TESTS_MEDIA_CLIP_FIXTURES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/media/file_sink.h"
#include "engine/tensor/tensor.h"

namespace kinora {

struct TestClip {
  ClipInfo info;
  std::vector<uint8_t> rgb;     // [frames, height, width, 3]
  std::vector<float> waveform;  // [channels, samples]

  Tensor FrameTensor(int64_t begin, int64_t end);
  Tensor WaveformTensor();
};

// Smooth moving gradients with a moving square (so that every frame differs) and two sine tones.
TestClip MakeTestClip(ClipInfo info);
// One colour throughout, without sound (silence).
TestClip MakeFlatClip(ClipInfo info, uint8_t red, uint8_t green, uint8_t blue);

// Calls Begin … End like the pipeline: frames in chunks of three, then the sound.
absl::Status WriteClip(TestClip& clip, ClipSink& sink);
absl::Status WriteClip(TestClip& clip, const std::string& path, const FileSinkOptions& options);

struct DecodedMovie {
  std::vector<std::vector<uint8_t>> rgb;   // converted as BT.709 limited range
  std::vector<std::vector<uint8_t>> luma;  // raw first plane
  std::vector<std::vector<uint8_t>> cb, cr;
  std::vector<double> frame_seconds;
  std::vector<float> sound;  // channel 0, after the container's trimming
  int sample_rate = 0;
  std::string video_codec, audio_codec, pixel_format, range, space, primaries, transfer;
  double frame_rate = 0, video_seconds = 0, audio_seconds = 0, audio_start = 0;  // from the container
  std::map<std::string, std::string> metadata;
};
DecodedMovie DecodeMovie(const std::string& path);  // ends the test program on any error

std::vector<uint8_t> DecodePng(std::string_view png, int64_t& width, int64_t& height);
double Psnr(const std::vector<uint8_t>& a, const uint8_t* b);

std::string ReadFile(const std::string& path);
std::string TempPath(const std::string& name);  // in a folder of this process, removed at exit

}  // namespace kinora

#endif  // KINORA_TESTS_MEDIA_CLIP_FIXTURES_H_
