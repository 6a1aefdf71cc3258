// Creates ClipSinks that write files, from options that mirror the proto's `Output`.
//
// Files appear complete or not at all: sinks write to PATH.XXXX.part, which End renames. An error or an early
// destruction removes the partial file. The bytes depend only on the frames, the samples, the options and the build:
// the number of encoder threads is fixed, and no date, host or path is written. A sink for pictures encodes them in a
// thread of its own from Begin on (threaded_sink.h), so errors of a call may be those of an earlier one.
#ifndef KINORA_ENGINE_MEDIA_FILE_SINK_H_
#define KINORA_ENGINE_MEDIA_FILE_SINK_H_

#include <memory>
#include <string>

#include "engine/media/container.h"
#include "engine/pipeline/clip_sink.h"

namespace kinora {

struct FileSinkOptions {
  Container container = Container::kMp4;
  bool without_audio = false;
  int crf = 19;              // kMp4: x264, kWebm: VP9; 0..51. Lower means better quality and larger files.
  std::string parameters{};  // written as the file's comment; empty: none
  std::string prompt{};      // written as the file's description; empty: none
};

// Begin fails with InvalidArgument if the container cannot hold the clip or its options (odd sizes, no sound for a
// WAV). If the file cannot be created, Begin fails with its path; for kWav, End does.
std::unique_ptr<ClipSink> MakeFileSink(std::string path, const FileSinkOptions& options);

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_FILE_SINK_H_
